"""Random schemas and values, hostile ones too, through every format: what was saved comes back to the last bit, or the save is
refused and leaves nothing."""

import os
import re
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Optional

import jax
import ml_dtypes
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import Array
from jaxtyping import Key, PyTree

from tests.runtime.equality import same
from treaty.generator import load
from treaty.runtime import from_bytes, restore, save, to_bytes
from treaty.runtime._convert.convert import convert
from treaty.runtime.formats import npz, orbax
from treaty.schema import ArraySpec, TreatyError, state
from treaty.schema.dtypes import BY_NAME

HOSTILE = [
    *(
        "",
        ".",
        "..",
        "a.b",
        "a/b",
        "/",
        "a\0b",
        "%",
        "%2F",
        "~",
        "~0",
        "a~1b",
        "0",
        "1",
        "01",
        "-1",
        " ",
        "\n",
        "é",
        "\U0001f600",
    ),
    *(
        "\ud800",
        "x" * 300,
        "__msgpack_chunked_array__",
        "__metadata__",
        "treaty",
        "__treaty__",
        "shape",
        "chunks",
        "format",
    ),
    *("args", "keywords", "impl", "data", "values", "CON", "a\\b", ".zarray", "zarr.json", "$", "['a']"),
]
KEYS = st.sampled_from(HOSTILE) | st.text(max_size=4)
NANS = [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001, 0x7FF0000000000001]
FLOATS = st.floats() | st.sampled_from(NANS).map(lambda bits: struct.unpack(">d", bits.to_bytes(8, "big"))[0])
HUGE = [63, 64, 65, 1300, 20000]  # bits: beyond MessagePack, beyond JSON's digits
INTS = st.integers() | st.builds(
    lambda sign, bits, more: sign * (1 << bits) + more,
    st.sampled_from([1, -1]),
    st.sampled_from(HUGE),
    st.integers(-1, 1),
)
SCALARS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, INTS),
    (float, FLOATS),
    (bool, st.booleans()),
    (str, st.text(max_size=4) | st.sampled_from(HOSTILE)),
    (bytes, st.binary(max_size=4)),
    (complex, st.builds(complex, FLOATS, FLOATS)),
    (None, st.none()),
]


@st.composite
def arrays(draw: st.DrawFn) -> tuple[Any, Any]:
    row = BY_NAME[draw(st.sampled_from(sorted(BY_NAME)))]
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    count = int(np.prod(shape, dtype=int))
    if row.name == "bool" or re.match(r"u?int[124]$|float[46]_", row.name):  # not every byte is a value
        array = np.asarray(draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))).astype(row.numpy)
    else:
        array = np.frombuffer(draw(st.binary(min_size=count * row.itemsize, max_size=count * row.itemsize)), row.numpy)
    array = array.reshape(shape)
    form = draw(st.sampled_from(["plain", "strided", "read-only", "fortran", "swapped"]))
    if form == "plain":
        array = array.copy()
    elif form == "strided" and shape:
        array = np.repeat(array, 2, axis=0)[::2]
    elif form == "fortran":
        array = np.asfortranarray(array)
    elif form == "swapped":
        array = array.astype(array.dtype.newbyteorder())
    return Annotated[np.ndarray, ArraySpec(row.name, " ".join(map(str, shape)))], array


@st.composite
def typed(draw: st.DrawFn, depth: int = 0) -> tuple[Any, Any]:
    """An annotation, and a value of it."""
    kinds = ["scalar", "scalar", "array", "numpy", "key", "any"]
    kind = draw(st.sampled_from(kinds + ["list", "tuple", "pair", "str", "int", "maybe"] * (2 if depth < 3 else 0)))
    if kind == "scalar":
        annotation, values = draw(st.sampled_from(SCALARS))
        return annotation, draw(values)
    if kind == "array":
        return draw(arrays())
    if kind == "numpy":
        scalar = draw(
            st.sampled_from(
                [np.float32(np.nan), np.float64(-0.0), np.int8(-1), np.complex64(1j), ml_dtypes.bfloat16(2)]
            )
        )
        return type(scalar), scalar
    if kind == "key":
        return Key[Array, ""], jax.random.key(
            draw(st.integers(0, 9)), impl=draw(st.sampled_from(["threefry2x32", "rbg"]))
        )
    if kind == "any":
        leaves = st.one_of([values for _, values in SCALARS])
        return PyTree, draw(st.recursive(leaves, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=4))
    item: Any
    other: Any
    item, value = draw(typed(depth + 1))
    count = draw(st.integers(0, 2) | st.just(9))
    if kind == "list":
        return list.__class_getitem__(item), [value] * count
    if kind == "tuple":
        return tuple.__class_getitem__((item, ...)), (value,) * count
    if kind == "pair":
        other, second = draw(typed(depth + 1))
        return tuple.__class_getitem__((item, other)), (value, second)
    if kind == "maybe":
        return (Optional.__getitem__(item), draw(st.sampled_from([value, None]))) if item is not None else (None, None)
    keys = draw(st.lists(KEYS if kind == "str" else INTS, unique=True, max_size=4))
    return dict.__class_getitem__((str if kind == "str" else int, item)), dict.fromkeys(keys, value)


def exact(got: Any, expected: Any, name: str = "") -> None:
    """`same`, and NaNs to the bit. Dicts of Orbax and eformer have no order, as JAX gives them none."""
    if name in ("orbax", "eformer"):
        got, expected = _in_order(got), _in_order(expected)
    same(got, expected)
    assert _floats(got) == _floats(expected)


def _in_order(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(map(_in_order, value))
    return {key: _in_order(value[key]) for key in sorted(value)} if type(value) is dict else value


def _floats(value: Any) -> list[bytes]:
    if isinstance(value, (list, tuple)):
        return [bits for one in value for bits in _floats(one)]
    if isinstance(value, dict):
        return _floats(list(value.values()))
    if type(value) is complex:
        return _floats([value.real, value.imag])
    return [struct.pack(">d", value)] if type(value) is float else []


WRITERS: dict[str, Callable[[Path, Any], object]] = {
    **{
        name: (lambda path, value: save(path, value))
        for name in ("x.msgpack", "x.msgpack.gz", "x.msgpack.zst", "x.safetensors", "directory")
    },
    "sharded.safetensors": lambda path, value: save(path, value, max_shard_bytes=16),
    "x.npz": lambda path, value: npz.write(path, value),
    "orbax": lambda path, value: orbax.write(path, value),
}


def holder(annotation: Any) -> Any:
    cls: Any = state(type("Holder", (), {"__module__": __name__, "__annotations__": {"value": annotation}}))
    load(cls)
    return cls


@settings(max_examples=40)
@given(typed())
def test_what_is_saved_comes_back_to_the_last_bit_or_the_save_is_refused(pair: tuple[Any, Any]) -> None:
    annotation, value = pair
    cls = holder(annotation)
    instance = cls(value=value)
    try:
        data = to_bytes(instance)
    except TreatyError:
        pass
    else:
        exact(from_bytes(cls, data, into="numpy").value, value)
    for name, write in WRITERS.items():
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, name)
            try:
                write(place, instance)
            except TreatyError:
                assert os.listdir(folder) == []
                continue
            exact(restore(place, cls, into="numpy").value, value, name)


@settings(max_examples=15)
@given(typed(), st.sampled_from(["x.msgpack", "x.safetensors", "x.npz", "orbax", "eformer"]))
def test_what_is_converted_comes_back_too_or_is_refused(pair: tuple[Any, Any], name: str) -> None:
    annotation, value = pair
    cls = holder(annotation)
    with tempfile.TemporaryDirectory() as folder:
        source, there, back = Path(folder, "source"), Path(folder, "to", name), Path(folder, "back", "again")
        for place in (there, back):
            place.parent.mkdir()
        try:
            save(source, cls(value=value))
        except TreatyError:
            return
        format = name if "." not in name else None
        try:
            convert(source, there, cls=cls, to_format=format)
        except TreatyError:
            assert os.listdir(there.parent) == []
            return
        exact(restore(there, cls, into="numpy").value, value, name)
        convert(there, back, cls=cls)
        exact(restore(back, cls, into="numpy").value, value, name)
