"""The one dtype table: every dtype JAX has, under every spelling that Treaty meets."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np


class DType(NamedTuple):
    """One dtype and its spellings; None where a system has no name for it.

    Not of attrs, here as in all that `treaty inspect` needs: importing that takes longer than reading a manifest.
    """

    name: str  # numpy's, JAX's and Flax's
    jaxtyping: str | None
    safetensors: str | None
    tensorstore: str | None  # TensorStore's and zarr3's

    @property
    def numpy(self) -> "np.dtype[np.generic]":
        import ml_dtypes  # here, since names and sizes alone need neither
        import numpy as np

        return np.dtype(getattr(ml_dtypes, self.name, self.name))

    @property
    def itemsize(self) -> int:
        """Bytes of an element in memory, where none takes less than one."""
        bits = re.search(r"[0-9]+", self.name)
        return max(1, int(bits[0]) // 8) if bits else 1


# fmt: off
TABLE: Final = (
    DType("bool",               "Bool",              "BOOL",        "bool"),
    DType("int1",               None,                None,          None),
    DType("int2",               "Int2",              None,          "int2"),
    DType("int4",               "Int4",              None,          "int4"),
    DType("int8",               "Int8",              "I8",          "int8"),
    DType("int16",              "Int16",             "I16",         "int16"),
    DType("int32",              "Int32",             "I32",         "int32"),
    DType("int64",              "Int64",             "I64",         "int64"),
    DType("uint1",              None,                None,          None),
    DType("uint2",              "UInt2",             None,          None),
    DType("uint4",              "UInt4",             None,          None),
    DType("uint8",              "UInt8",             "U8",          "uint8"),
    DType("uint16",             "UInt16",            "U16",         "uint16"),
    DType("uint32",             "UInt32",            "U32",         "uint32"),
    DType("uint64",             "UInt64",            "U64",         "uint64"),
    DType("float4_e2m1fn",      None,                None,          "float4_e2m1fn"),
    DType("float6_e2m3fn",      None,                None,          None),
    DType("float6_e3m2fn",      None,                None,          None),
    DType("float8_e3m4",        None,                None,          "float8_e3m4"),
    DType("float8_e4m3",        None,                None,          None),
    DType("float8_e4m3b11fnuz", "Float8e4m3b11fnuz", None,          "float8_e4m3b11fnuz"),
    DType("float8_e4m3fn",      "Float8e4m3fn",      "F8_E4M3",     "float8_e4m3fn"),
    DType("float8_e4m3fnuz",    "Float8e4m3fnuz",    "F8_E4M3FNUZ", "float8_e4m3fnuz"),
    DType("float8_e5m2",        "Float8e5m2",        "F8_E5M2",     "float8_e5m2"),
    DType("float8_e5m2fnuz",    "Float8e5m2fnuz",    "F8_E5M2FNUZ", "float8_e5m2fnuz"),
    DType("float8_e8m0fnu",     None,                "F8_E8M0",     "float8_e8m0fnu"),
    DType("bfloat16",           "BFloat16",          "BF16",        "bfloat16"),
    DType("float16",            "Float16",           "F16",         "float16"),
    DType("float32",            "Float32",           "F32",         "float32"),
    DType("float64",            "Float64",           "F64",         "float64"),
    DType("complex64",          "Complex64",         "C64",         "complex64"),
    DType("complex128",         "Complex128",        None,          "complex128"),
)
# fmt: on

BY_NAME: Final = {row.name: row for row in TABLE}

# What a dtype may be widened to without a value being changed: a closed table.
WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "bfloat16": ("float32", "float64"),
    "float16": ("float32", "float64"),
    "float32": ("float64",),
    "complex64": ("complex128",),
    "int8": ("int16", "int32", "int64"),
    "int16": ("int32", "int64"),
    "int32": ("int64",),
    "uint8": ("uint16", "uint32", "uint64"),
    "uint16": ("uint32", "uint64"),
    "uint32": ("uint64",),
}

KEY_IMPLS: Final = {"threefry2x32": 2, "rbg": 4, "unsafe_rbg": 4}  # words of key data per key


JAX_KEYS: Final = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}  # by JAX's dtypes


def key_impl(name: str) -> str | None:
    """`"key<rbg>"` -> `"rbg"`; None for anything else."""
    impl = name.removeprefix("key<").removesuffix(">")
    return impl if name == f"key<{impl}>" and impl in KEY_IMPLS else None
