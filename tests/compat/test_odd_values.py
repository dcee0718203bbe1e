"""Values at the edges of what Flax takes: each is the same here, or refused with an error that says why."""

import collections
import enum
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import flax.core
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.tree_util import Partial

from tests.compat.test_same_bytes import chunk_size
from tests.compat.trees import DTYPES, FLAX, Pair, Point, leaves, make_partial
from treaty.runtime import CorruptCheckpointError, serialization
from treaty.schema import TreatyError

CHUNKED = "__msgpack_chunked_array__"
WRITTEN_AND_NOT_READ = (  # by Flax, and what it says then
    "not understood",  # numpy's text
    "not allowed for map key when strict_map_key=True",  # keys other than text, before Flax 0.12.8
)


class Color(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


class Items(list[Any]):
    pass


class Reals(np.ndarray[Any, np.dtype[Any]]):
    pass


TEXT = [
    np.array(["abc", "é", ""]),
    np.array([["a"], ["\ud800"]]),
    np.array([b"ab", b""]),
    np.str_("x"),
    np.bytes_(b"xy"),
]
WITHOUT_CONTENTS = jax.eval_shape(lambda: jnp.zeros(2))
SCALARS = [np.dtype(dtype).type(1) for dtype in DTYPES]
TIMES = [np.datetime64("2020-01-01"), np.timedelta64(3, "s"), np.array(["2020"], "M8[D]"), np.array([1], "m8")]
LAYOUTS = [np.zeros(3, ">f4"), np.arange(6)[::-2], np.broadcast_to(np.float32(3), (2, 3)), np.zeros(2).view(Reals)]
EMPTY: list[Any] = [(), [], {}, flax.core.freeze({}), np.zeros((2, 0, 3)), np.zeros(()), make_partial(jnp.add)]
# Arrays, since numpy leaves what it likes in the unused bytes of a long double that is a scalar.
LONG = [np.zeros(1, np.longdouble), np.zeros(1, np.clongdouble)]
NUMBERS = [2**64 - 1, -(2**63), 2**64, -(2**63) - 1, *LONG, jnp.int32(2), True]
OTHERS = [Color.RED, Number.ONE, Text("a"), Items([1]), bytearray(b"a"), memoryview(b"a"), {1, 2}, range(3), int, ...]
CONTAINERS = [collections.OrderedDict(b=1, a=2), collections.defaultdict(list, a=[1]), collections.deque([1])]
NO_ARRAYS = [np.array(None), np.ma.array([1, 2], mask=[False, True]), jax.random.key(0), WITHOUT_CONTENTS, "\ud800"]
odd = st.sampled_from(
    [*TEXT, *SCALARS, *TIMES, *LAYOUTS, *EMPTY, *NUMBERS, *OTHERS, *CONTAINERS, *NO_ARRAYS, complex(1, 2)]
)
keys = st.one_of(
    st.text(max_size=3),
    st.integers(-3, 30),
    st.booleans(),
    st.binary(max_size=2),
    st.none(),
    st.floats(allow_nan=False),
    st.sampled_from([Text("k"), Number.ONE, Color.RED, np.int64(3), np.str_("k"), (1, 2), 2**70, CHUNKED, "shape"]),
)
trees: st.SearchStrategy[Any] = st.recursive(
    st.one_of(odd, leaves),
    lambda parts: st.one_of(
        st.dictionaries(keys, parts, max_size=4),
        st.lists(parts, max_size=4),
        st.lists(parts, max_size=3).map(tuple),
        st.builds(Pair, parts, parts),
        st.builds(Point, x=parts, y=parts),
        st.dictionaries(keys, parts, max_size=3).map(flax.core.FrozenDict),
        st.builds(lambda x, y: make_partial(jnp.add, x, y=y), parts, parts),
    ),
    max_leaves=8,
)


def outcome(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(), None
        except Exception as error:
            return None, error


def alike(one: Any, other: Any) -> bool:
    """Equal in structure, types and bits, also where values are odd."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (dict, flax.core.FrozenDict)):
        pairs = zip(one.items(), other.items(), strict=False)
        return len(one) == len(other) and all(repr(k) == repr(j) and alike(v, w) for (k, v), (j, w) in pairs)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, (Point, Partial)):
        parts: Any = ("x", "y", "name") if isinstance(one, Point) else ("func", "args", "keywords")
        return all(alike(getattr(one, name), getattr(other, name)) for name in parts)
    if isinstance(one, (np.ndarray, np.generic)):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    return one is other or repr(one) == repr(other)


def agree(name: str, *args: Any) -> None:
    """The same from both modules. Where Flax trips over its own code, ours may say better what is wrong."""
    ours, refused = outcome(lambda: getattr(serialization, name)(*args))  # first: ours never changes a tree
    theirs, wrong = outcome(lambda: getattr(FLAX, name)(*args))
    if wrong is None:
        assert refused is None
        assert alike(ours, theirs)
    elif not any(words in str(wrong) for words in WRITTEN_AND_NOT_READ):
        assert isinstance(refused, (type(wrong), TreatyError, ValueError))


@settings(max_examples=300)
@given(trees, st.booleans())
def test_odd_trees_are_written_alike(tree: Any, in_place: bool) -> None:
    for name in ("is_serializable", "to_state_dict", "to_bytes"):
        agree(name, tree)
    agree("msgpack_serialize", tree, in_place)
    with chunk_size(8):
        agree("msgpack_serialize", tree, in_place)


@settings(max_examples=300)
@given(trees, trees)
def test_odd_trees_are_read_alike(tree: Any, other: Any) -> None:
    for write in (FLAX.to_bytes, FLAX.msgpack_serialize):
        data, _ = outcome(partial(write, tree))
        if data is not None:
            agree("msgpack_restore", data)
            agree("from_bytes", tree, data)
            with serialization.strict(False):
                agree("from_bytes", other, data)
    state, _ = outcome(lambda: FLAX.to_state_dict(tree))
    agree("from_state_dict", tree, state)
    with serialization.strict(False):
        agree("from_state_dict", other, state)


@pytest.mark.parametrize("leaf", TEXT, ids=repr)
def test_text_in_numpy_is_read_which_flax_only_writes(leaf: Any) -> None:
    data = serialization.to_bytes({"leaf": leaf})
    assert data == FLAX.to_bytes({"leaf": leaf})
    with pytest.raises(TypeError, match="not understood"):
        FLAX.msgpack_restore(data)
    assert alike(serialization.msgpack_restore(data), {"leaf": leaf})
    assert alike(serialization.from_bytes({"leaf": leaf}, data), {"leaf": leaf})


def test_text_among_alike_items_is_checked_in_each() -> None:
    state = {str(index): np.array(["ab", "c"]) for index in range(40)}
    data = serialization.to_bytes(state)
    assert alike(serialization.msgpack_restore(data), state)
    last = bytearray(data)
    last[-1] = 0x7F  # no such character
    with pytest.raises(CorruptCheckpointError, match=r"^expected text in UCS-4, got other numbers at byte \d+, \$"):
        serialization.msgpack_restore(bytes(last))


@pytest.mark.parametrize("name", ["str33", "str0", "bytes12", "str", "bytes", "void32", "record32", "str3" + "2" * 30])
def test_text_of_no_whole_length_is_damage(name: str) -> None:
    data = FLAX.to_bytes({"w": np.array(["a"])}).replace(b"\xa5str32", bytes([0xA0 + len(name) % 32]) + name.encode())
    with pytest.raises(CorruptCheckpointError):
        serialization.msgpack_restore(data)


@pytest.mark.parametrize(
    ("leaf", "words"),
    [
        (np.ma.array([1.0, 2.0], mask=[False, True]), "expected an array without a mask, got a masked one"),
        (np.ma.masked, "expected an array without a mask"),
        (np.zeros(2, "V4"), "expected numbers or text, got dtype |V4"),
        (np.void(b"ab"), "expected numbers or text, got dtype |V2"),
        (np.zeros(2, [("a", "f4")]), r"expected numbers or text, got dtype [('a', '<f4')]"),
        (np.rec.array([(1,)], dtype=[("a", "i4")]), "expected numbers or text"),
        (np.array([None]), "expected numbers or text, got dtype object"),
        (WITHOUT_CONTENTS, "expected arrays with contents, got abstract ones"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("place", [lambda leaf: {"a": leaf}, lambda leaf: {"a": [leaf]}, lambda leaf: leaf])
def test_what_could_not_be_read_back_is_refused(leaf: Any, words: str, place: Any) -> None:
    for write in (serialization.to_bytes, lambda tree: serialization.msgpack_serialize(tree, in_place=True)):
        with pytest.raises(TreatyError) as caught:
            write(place(leaf))
        assert words in str(caught.value)
        assert isinstance(caught.value, (ValueError, TypeError))
    assert serialization.validate_serializable({"a": leaf})[0] is False


def test_dicts_below_a_list_are_never_taken_for_arrays_in_parts() -> None:
    array = np.arange(4.0)
    parts = {CHUNKED: True, "shape": {"0": 4}, "chunks": {"0": array[:2], "1": array[2:]}}
    for tree in ([parts], {"a": [parts]}, {"a": [{"b": parts}]}, {"a": {"b": [[parts]], "c": parts}}):
        agree("msgpack_restore", FLAX.msgpack_serialize(tree))
    with chunk_size(8):
        agree("msgpack_serialize", {"a": [{"b": np.arange(4.0)}], "c": np.arange(4.0)})


@pytest.mark.parametrize("key", [None, True, 1.5, -0.0, np.int64(3), np.float64(2), np.bool_(True), b"k", -5])
def test_keys_of_other_types(key: Any) -> None:
    data = FLAX.msgpack_serialize({key: 1}, in_place=True)
    assert serialization.msgpack_serialize({key: 1}, in_place=True) == data
    (read,) = serialization.msgpack_restore(data)
    assert (type(read), repr(read)) == (type(key), repr(key))


def test_a_swapped_array_is_a_target_for_what_is_stored_of_it() -> None:
    swapped = np.arange(3, dtype=">f4")
    restored = serialization.from_bytes({"a": swapped}, serialization.to_bytes({"a": swapped}))
    assert np.array_equal(restored["a"], swapped)


def test_an_empty_list_may_be_stored_as_a_list() -> None:
    data = FLAX.msgpack_serialize({"a": [], "b": []})
    agree("from_bytes", {"a": [], "b": ()}, data)


def test_an_int_key_is_looked_for_as_text_only() -> None:
    with pytest.raises(ValueError, match=r"contains keys {'1'} which are not present in state dict at path \./a$"):
        serialization.from_state_dict({"a": {1: 0}}, {"a": {1: 5}})
    agree("from_state_dict", {"a": {1: 0}}, {"a": {1: 5}})
