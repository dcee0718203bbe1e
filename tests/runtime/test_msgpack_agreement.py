"""The compiled way and the plain way give the same bytes and the same objects, whatever the class and the values.

Random classes hold sequences whose items are alike but for some; the plain way is Flax's own msgpack functions around
`to_state_dict` and `from_state_dict`.
"""

import random
from typing import Annotated, Any, Final

import flax.serialization
import jax
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from jaxtyping import Float32

from tests.attacks.writers import Writer
from tests.compat.trees import packable
from tests.runtime.equality import same
from tests.runtime.test_agreement import DICT, LIST, TUPLE, classes, valid_states
from treaty.generator import load
from treaty.runtime import StateMismatchError, from_bytes, from_state_dict, to_bytes, to_state_dict
from treaty.runtime.formats.msgpack import pack
from treaty.runtime.formats.msgpack.decode import decode
from treaty.runtime.formats.msgpack.runs import Runs
from treaty.schema import Dims, TreatyError, schema_of, state

FLAX: Any = flax.serialization
COUNTS = st.sampled_from([0, 1, 3, 4, 9, 33, 34, 45, 105])
WRITERS = st.builds(
    Writer,
    order=st.sampled_from(["kept", "reversed", "sorted", "shuffled"]),
    wide=st.booleans(),
    bytes_keys=st.sampled_from([False, False, False, True]),
    short_floats=st.booleans(),
    seed=st.integers(0, 9),
)
relaxed = settings(
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
    phases=[Phase.generate],
    max_examples=settings().max_examples // 3,
)


def refilled(tree: Any, random: random.Random) -> Any:
    """The same tree with other bits in its arrays."""
    if isinstance(tree, dict):
        return {key: refilled(value, random) for key, value in tree.items()}
    if isinstance(tree, (np.ndarray, jax.Array)) and tree.dtype != bool:
        return np.frombuffer(random.randbytes(tree.nbytes), tree.dtype).reshape(tree.shape)
    return tree


@st.composite
def sequences(draw: st.DrawFn, cls: type, rng: random.Random) -> dict[str, Any]:
    """The state of a sequence: many alike items, and a few that are of the same class only."""
    schema = schema_of(cls)
    one = draw(valid_states(schema, schema.root_class, {}))
    items = [refilled(one, rng) for _ in range(draw(COUNTS))]
    for _ in range(draw(st.integers(0, 2)) if items else 0):
        items[draw(st.integers(0, len(items) - 1))] = draw(valid_states(schema, schema.root_class, {}))
    return {str(index): item for index, item in enumerate(items)}


OWN: Final = Dims(None)  # whatever dims the items have


@st.composite
def holders(draw: st.DrawFn) -> tuple[type, dict[str, Any]]:
    """A class around sequences of another, and the state of one instance."""
    item = draw(classes(1))
    rng = random.Random(draw(st.integers(0, 99)))
    fields = {
        "items": Annotated[LIST[item], OWN],
        "whole": Float32[np.ndarray, "n"],
        "nested": Annotated[TUPLE[LIST[item], ...], OWN],
        "by_name": Annotated[DICT[str, item], OWN],
        "arrays": LIST[Float32[np.ndarray, "k"]],
    }
    built: type = state(type("Holder", (), {"__annotations__": fields, "__qualname__": f"Holder{id(item)}"}))
    load(built)
    many = sequences(item, rng)
    tree = {
        "items": draw(many),
        "whole": refilled(np.zeros(draw(st.sampled_from([0, 1, 300])), np.float32), rng),
        "nested": {str(index): draw(many) for index in range(draw(st.integers(0, 2)))},
        "by_name": draw(many),
        "arrays": {str(i): refilled(np.zeros(3, np.float32), rng) for i in range(draw(COUNTS))},
    }
    return built, tree


def mixed(draw: Any, cls: type, tree: dict[str, Any]) -> Any:
    """An instance, its arrays on the device as declared, some items on the host instead."""
    obj: Any = from_state_dict(cls, tree)
    host: Any = from_state_dict(cls, tree, into="numpy")
    for index in range(len(obj.items)):
        if draw(st.integers(0, 7)) == 0:
            obj.items[index] = host.items[index]
    return host if draw(st.booleans()) else obj


def outcome(function: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except StateMismatchError as error:
        return str(error)


@relaxed
@given(holders(), st.data())
def test_bytes_are_those_of_flax_and_come_back_the_same(
    holder: tuple[type, dict[str, Any]], data: st.DataObject
) -> None:
    cls, tree = holder
    obj = mixed(data.draw, cls, tree)
    try:
        expected = FLAX.msgpack_serialize(to_state_dict(obj), in_place=True)
    except OverflowError:  # an int over 64 bits
        with pytest.raises(TreatyError, match=r"^expected what MessagePack can hold"):
            to_bytes(obj)
        return
    written = to_bytes(obj)
    assert written == expected
    same(from_bytes(cls, written, into="numpy"), from_state_dict(cls, FLAX.msgpack_restore(written), into="numpy"))
    same(from_bytes(cls, written), from_state_dict(cls, FLAX.msgpack_restore(written)))
    same(from_bytes(obj, written, into="numpy"), from_state_dict(obj, FLAX.msgpack_restore(written), into="numpy"))
    split = pack(to_state_dict(obj), chunk_bytes=16)
    same(from_bytes(cls, split, into="numpy"), from_state_dict(cls, FLAX.msgpack_restore(split), into="numpy"))


@relaxed
@given(holders(), WRITERS)
def test_bytes_of_another_writer_give_the_same_object_or_the_same_error(
    holder: tuple[type, dict[str, Any]], writer: Writer
) -> None:
    cls, tree = holder
    try:
        written = writer.write(host_tree(tree))
    except OverflowError:
        assume(False)
    restored = FLAX.msgpack_restore(written)
    same(decode(written), restored)
    same(outcome(from_bytes, cls, written, into="numpy"), outcome(from_state_dict, cls, restored, into="numpy"))


def host_tree(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: host_tree(value) for key, value in tree.items()}
    return np.asarray(tree) if isinstance(tree, jax.Array) else tree


@relaxed
@given(holders(), st.data())
def test_errors_are_the_same_either_way(holder: tuple[type, dict[str, Any]], data: st.DataObject) -> None:
    """One item of the right bytes for another class, or of another shape, is told as the plain way tells it."""
    cls, tree = holder
    places = [(name, key) for name in ("items", "by_name", "arrays") for key in tree[name]]
    assume(places)
    name, key = data.draw(st.sampled_from(places))
    wrong = [None, {}, 7, np.zeros(5, np.float32), np.zeros(3, np.float64), {"0": np.zeros(3, np.float32)}]
    broken = {**tree, name: {**tree[name], key: data.draw(st.sampled_from(wrong))}}
    try:
        written = pack(broken)
    except OverflowError:
        assume(False)
    restored = FLAX.msgpack_restore(written)
    same(outcome(from_bytes, cls, written, into="numpy"), outcome(from_state_dict, cls, restored, into="numpy"))


@settings(suppress_health_check=list(HealthCheck), max_examples=150)
@given(packable)
def test_trees_are_written_and_read_as_by_flax(tree: Any) -> None:
    written = pack(tree)
    assert written == FLAX.msgpack_serialize(tree, in_place=True)
    same(decode(written), FLAX.msgpack_restore(written))
    same(decode(written), host_leaves(tree))
    runs: Runs = {}
    decode(written, runs)
    same(decode(bytearray(written)), decode(memoryview(written)))


def host_leaves(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: host_leaves(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [host_leaves(value) for value in tree]
    return np.asarray(tree) if isinstance(tree, jax.Array) else tree


@pytest.mark.parametrize(
    "dtype",
    [
        "longlong",
        "ulonglong",
        "longdouble",
        "clongdouble",
        "M8[D]",
        "m8[25s]",
        "M8",
        "f2",
        "?",
        ml_dtypes.int4,
        ml_dtypes.float8_e8m0fnu,
    ],
    ids=str,
)
def test_every_name_of_a_dtype(dtype: Any) -> None:
    for tree in (
        {"a": np.zeros((2, 3), dtype)},
        {str(i): np.zeros(i % 2, dtype) for i in range(50)},
        np.zeros((), dtype),
    ):
        written = pack(tree)
        assert written == FLAX.msgpack_serialize(tree, in_place=True)
        same(decode(written), tree)
