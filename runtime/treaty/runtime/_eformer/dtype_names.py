"""Dtypes by eformer's short names (`bf16`, `fp32`, `fp8_e4m3fn`) as well as by their own."""

from typing import Any, Final, TypeAlias

import numpy as np

from treaty.runtime._errors import InvalidArgumentError
from treaty.schema.dtypes import BY_NAME

AnyDType: TypeAlias = str | type[Any] | np.dtype[Any]
_SHORT: Final = {"bf16": "bfloat16", "fp8": "float8_e5m2"}


def dtype_named(dtype: AnyDType) -> "np.dtype[Any]":
    """`"fp16"`, `"float16"`, `jnp.float16` and `np.dtype("float16")` are one dtype."""
    if not isinstance(dtype, str):
        return np.dtype(dtype)
    name = _SHORT.get(dtype, "float" + dtype[2:] if dtype.startswith("fp") else dtype)
    if name not in BY_NAME:
        raise InvalidArgumentError(f"expected the name of a dtype, such as bf16 or float32, got {dtype!r}")
    return BY_NAME[name].numpy
