"""Random trees of all that Flax can serialize."""

from typing import Any, NamedTuple

import flax.core
import flax.serialization
import flax.struct
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from jax.tree_util import Partial

FLAX: Any = flax.serialization  # partly typed
make_partial: Any = Partial
struct_field: Any = flax.struct.field

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
    *(ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2, ml_dtypes.float4_e2m1fn),
    *(ml_dtypes.float8_e3m4, ml_dtypes.float8_e4m3, ml_dtypes.float8_e4m3b11fnuz, ml_dtypes.float8_e4m3fn),
    *(ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e8m0fnu),
]
ON_DEVICE = ["bool", "int8", "uint32", "int32", "float16", "float32", "complex64", "bfloat16", "float8_e4m3fn", "int4"]


class Pair(NamedTuple):
    first: Any
    second: Any


@flax.struct.dataclass
class Point:
    x: Any
    y: Any
    name: str = struct_field(pytree_node=False, default="origin")


def make_array(dtype: Any, shape: list[int], transposed: bool) -> "np.ndarray[Any, Any]":
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    return array.T if transposed else array


shapes = st.lists(st.integers(0, 3), max_size=3)
arrays = st.builds(make_array, st.sampled_from(DTYPES), shapes, st.booleans())
device_arrays = st.builds(lambda dtype, shape: jnp.ones(shape, dtype), st.sampled_from(ON_DEVICE), shapes)
numpy_scalars = st.sampled_from(DTYPES).map(lambda dtype: np.dtype(dtype).type(1))
plain: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=40),
    st.binary(max_size=40),
)
leaves = st.one_of(plain, arrays, device_arrays, numpy_scalars)
keys = st.text(max_size=5)

serializable: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda parts: st.one_of(
        st.dictionaries(keys, parts, max_size=4),
        st.dictionaries(st.integers(0, 30), parts, max_size=3),
        st.lists(parts, max_size=18),
        st.lists(parts, max_size=3).map(tuple),
        st.builds(Pair, parts, parts),
        st.builds(Point, x=parts, y=parts),
        st.dictionaries(keys, parts, max_size=3).map(flax.core.FrozenDict),
        st.builds(lambda x, y: make_partial(jnp.add, x, y=y), parts, parts),
    ),
    max_leaves=12,
)
"""What to_bytes takes."""

packable: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda parts: st.one_of(st.dictionaries(keys, parts, max_size=4), st.lists(parts, max_size=4)),
    max_leaves=12,
)
"""What msgpack_serialize takes."""


def same(one: Any, other: Any) -> bool:
    """Equal in structure, types, dtypes and bits; a NaN equals itself."""
    if isinstance(one, (np.ndarray, np.generic, jax.Array)):
        a, b = np.asarray(one), np.asarray(other)
        return type(one) is type(other) and (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(one, (dict, flax.core.FrozenDict)):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Point):
        return one.name == other.name and same(one.x, other.x) and same(one.y, other.y)
    if isinstance(one, Partial):
        return one.func is other.func and same(one.args, other.args) and same(one.keywords, other.keywords)
    return type(one) is type(other) and (repr(one) == repr(other))
