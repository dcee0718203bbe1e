"""Alike items of a sequence take a shortcut, written and read as columns. It must never show in what comes out.

Each test here is a way in which the shortcut could hand out a wrong array; the property test over random classes is in
test_msgpack_agreement.py.
"""

import dataclasses
import enum
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any
from unittest.mock import Mock

import attrs
import flax.serialization
import jax
import jax.numpy as jnp
import msgpack
import numpy as np
import pytest
from jaxtyping import Float32, Key

from tests.runtime.equality import same
from treaty.generator import load
from treaty.runtime import (
    CorruptCheckpointError,
    StateMismatchError,
    from_bytes,
    from_state_dict,
    save,
    to_bytes,
    to_state_dict,
)
from treaty.runtime._state import alike
from treaty.runtime.formats.msgpack import instances, pack, runs
from treaty.runtime.formats.msgpack.decode import decode
from treaty.runtime.formats.msgpack.instances import join_pieces
from treaty.schema import Dims, Fields, TreatyError, field, state

MANY = 50  # enough for every shortcut
HostArray = np.ndarray[Any, np.dtype[Any]]


class Kind(enum.Enum):
    OPEN = 1
    SHUT = 2


@state
class Linear:
    kernel: Float32[np.ndarray, "a b"]
    bias: Float32[np.ndarray, "b"]
    count: int = 0
    note: str | None = None
    kind: Kind = Kind.OPEN
    name: str = field(static=True, default="")


@state
class Stack:
    layers: list[Linear]


@state
class Arrays:
    items: list[Float32[np.ndarray, "a"]]


@state
class Devices:
    items: tuple[Float32[jax.Array, "a"], ...]


@state
class Keys:
    items: list[Key[jax.Array, ""]]


def _rise(_: object, __: object, knots: Any) -> None:
    values = list(knots.values()) if isinstance(knots, dict) else knots
    if any(a >= b for a, b in pairwise(values)):
        raise ValueError("knots must rise")


def _positive(_: object, __: object, value: HostArray) -> None:
    if value <= 0:
        raise ValueError("must be positive")


@state
class Rising:
    knots: list[Float32[np.ndarray, ""]] = attrs.field(validator=_rise)


@state
class RisingByName:
    knots: dict[str, Float32[np.ndarray, ""]] = attrs.field(validator=_rise)


@state
class Positive:
    value: Float32[np.ndarray, ""] = attrs.field(validator=_positive)


@state
class Positives:
    items: list[Positive]


def _one_more(count: int) -> int:
    return count + 1


@state
class Counted:
    value: Float32[np.ndarray, "a"]
    count: int = attrs.field(converter=_one_more)


@state
class CountedAll:
    items: list[Counted]


@state
class Options:
    values: dict[int, Float32[np.ndarray, "a"]]


@state
class Choices:
    items: list[Options]


@state
class Point:
    x: int
    y: int


@state
class Grid:
    rows: list[list[Point]]
    layers: list[Linear]
    table: dict[str, Point]


@state
class Everything:
    whole: Float32[np.ndarray, "n"]
    items: list[Linear]
    after: Annotated[list[Linear], Dims(None)]


class Refused(Exception):
    """What only the user's own code raises."""


def _refuse_falling(_: object, __: object, knots: Any) -> None:
    values = [knots[key] for key in knots] if isinstance(knots, dict) else list(knots)
    if any(float(a) >= float(b) for a, b in pairwise(values)):
        raise Refused("they fall")


@state
class OwnError:
    knots: list[Float32[np.ndarray, ""]] = attrs.field(validator=_refuse_falling)


@state
class OwnErrorByName:
    knots: dict[str, Float32[np.ndarray, ""]] = attrs.field(validator=_refuse_falling)


@state
class OwnErrorUntyped:
    knots: Any = attrs.field(validator=_refuse_falling)


@state
class OwnErrors:
    before: list[OwnErrorByName]
    knots: list[Float32[np.ndarray, ""]]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Foreign:
    knots: Any

    def __post_init__(self) -> None:
        _refuse_falling(self, None, self.knots)


@state
class HoldsForeign:
    foreign: Annotated[Foreign, Fields(knots=list[Float32[np.ndarray, ""]])]


@state
class Containers:
    maybe: Annotated[list[Linear | None], Dims(None)]
    nested: list[list[Float32[np.ndarray, "a"]]]
    by_name: Annotated[dict[str, Linear], Dims(None)]
    by_number: Annotated[dict[int, Linear], Dims(None)]
    untyped: Any


class Twins(enum.Enum):
    ONE = 1
    OTHER = 2

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Twins)

    def __hash__(self) -> int:
        return 0


@state
class Twin:
    value: Float32[np.ndarray, ""]
    which: Twins


@state
class AllTwins:
    items: list[Twin]


OWN = (OwnError, OwnErrorByName, OwnErrorUntyped, OwnErrors, HoldsForeign)
for cls in (
    *OWN,
    Containers,
    AllTwins,
    Stack,
    Arrays,
    Devices,
    Keys,
    Rising,
    RisingByName,
    Positives,
    CountedAll,
    Choices,
    Grid,
    Everything,
):
    load(cls)


def changed(obj: Any, **values: Any) -> Any:
    return attrs.evolve(obj, **values)


def negated(obj: Any) -> Any:
    return jax.tree.map(lambda array: np.asarray(-array), obj)  # no `__init__`, so no validator


def vector(value: float, size: int = 2) -> HostArray:
    return np.full(size, value, np.float32)


def linear(value: float, **other: Any) -> Linear:
    return Linear(kernel=np.full((2, 3), value, np.float32), bias=vector(-value, 3), **other)


def plain_bytes(obj: object) -> bytes:
    return flax.serialization.msgpack_serialize(to_state_dict(obj), in_place=True)


def plain_object(cls: type, data: bytes) -> Any:
    return from_state_dict(cls, flax.serialization.msgpack_restore(data), into="numpy")


def holds(cls: type, obj: Any) -> None:
    """The shortcut and the plain way give the same bytes and the same object."""
    data = to_bytes(obj)
    assert data == plain_bytes(obj)
    same(from_bytes(cls, data, into="numpy"), plain_object(cls, data))


@pytest.mark.parametrize("count", [1, 3, 4, 8, 10, 31, 32, 33, 34, 43, 99, 133, 260, 1100])
def test_any_number_of_alike_items(count: int) -> None:
    holds(Stack, Stack(layers=[linear(i) for i in range(count)]))


LAYERS: list[Linear] = [linear(i) for i in range(MANY)]
ODD: dict[str, Callable[[Linear], Linear]] = {
    "another shape": lambda one: changed(one, kernel=np.ones((5, 3), np.float32)),
    "Fortran order": lambda one: changed(one, kernel=np.asfortranarray(np.arange(6, dtype="f4").reshape(2, 3))),
    "strided": lambda one: changed(one, bias=np.arange(6, dtype=np.float32)[::2]),
    "backwards": lambda one: changed(one, bias=np.arange(3, dtype=np.float32)[::-1]),
    "broadcast": lambda one: changed(one, bias=np.broadcast_to(np.float32(3), (3,))),
    "read-only": lambda one: changed(one, bias=np.frombuffer(bytes(12), np.float32)),
    "unaligned": lambda one: changed(one, bias=np.frombuffer(bytes(13), np.float32, offset=1)),
    "nan and -0.0": lambda one: changed(one, bias=np.array([np.nan, -0.0, 0.0], np.float32)),
    "another count": lambda one: changed(one, count=1),
    "another width of count": lambda one: changed(one, count=1000),
    "a note": lambda one: changed(one, note="odd"),
    "another kind": lambda one: changed(one, kind=Kind.SHUT),
    "another name": lambda one: changed(one, name="odd"),
    "the kernel of a jax.Array": lambda one: changed(one, kernel=jnp.ones((2, 3))),
    "tied to the first": lambda one: changed(one, bias=LAYERS[0].bias),
    "tied kernels": lambda one: changed(one, kernel=LAYERS[1].kernel),
    "another dtype object": lambda one: changed(one, bias=np.ones(3, np.dtype("f4", metadata={"a": 1}))),
}


@pytest.mark.parametrize("place", [0, 1, 20, MANY - 1])
@pytest.mark.parametrize("odd", ODD)
def test_one_item_that_is_not_quite_alike(odd: str, place: int) -> None:
    layers = [ODD[odd](one) if index == place else one for index, one in enumerate(LAYERS)]
    holds(Stack, Stack(layers=layers))


@pytest.mark.parametrize("place", [0, 1, 20, MANY - 1])
@pytest.mark.parametrize(
    "wrong",
    [
        vector(1, 3).astype(np.float64),
        vector(1, 3).astype(">f4"),
        np.ones((3, 1), np.float32),
        np.float32(1),
        [1.0, 2.0, 3.0],
        None,
        np.array([None] * 3, object),
    ],
    ids=lambda value: f"{type(value).__name__} {getattr(value, 'dtype', '')}",
)
def test_one_item_that_is_wrong_is_told_as_without_the_shortcut(wrong: Any, place: int, tmp_path: Any) -> None:
    layers = [changed(one, bias=wrong) if index == place else one for index, one in enumerate(LAYERS)]
    with pytest.raises(StateMismatchError) as told:
        to_bytes(Stack(layers=layers))
    assert f"$.layers[{place}].bias" in str(told.value)
    with pytest.raises(StateMismatchError) as told_by_save:
        save(tmp_path / "x.msgpack", Stack(layers=layers))
    assert str(told_by_save.value) == str(told.value)
    assert not list(tmp_path.iterdir())


def test_an_item_without_contents_is_refused() -> None:
    abstract: Any = jax.eval_shape(lambda: jnp.zeros(3))
    with pytest.raises(TreatyError, match="expected arrays with contents, got abstract ones"):
        to_bytes(Stack(layers=[*LAYERS, changed(LAYERS[0], bias=abstract)]))


def test_an_item_of_a_subclass_is_refused() -> None:
    @state
    class Wider(Linear):
        extra: int = 0

    wider = Wider(kernel=LAYERS[0].kernel, bias=LAYERS[0].bias)
    with pytest.raises(StateMismatchError, match="expected Linear, got an instance of"):
        to_bytes(Stack(layers=[*LAYERS[:5], wider, *LAYERS[5:]]))


def test_one_array_in_all_places_of_an_item() -> None:
    tied = vector(1, 3)
    holds(Stack, Stack(layers=[Linear(kernel=np.ones((2, 3), np.float32), bias=tied) for _ in range(MANY)]))
    holds(Arrays, Arrays(items=[tied] * MANY))


def test_arrays_on_devices_and_keys() -> None:
    holds(Devices, Devices(items=tuple(jnp.full(3, i, np.float32) for i in range(MANY))))
    holds(Keys, Keys(items=[jax.random.key(i) for i in range(MANY)]))
    mesh = jax.make_mesh((8,), ("x",))
    spec: Any = jax.sharding.PartitionSpec
    sharding = jax.sharding.NamedSharding(mesh, spec("x"))
    holds(Devices, Devices(items=tuple(jax.device_put(jnp.arange(8.0) + i, sharding) for i in range(MANY))))


def test_items_are_their_own_objects() -> None:
    data = to_bytes(Choices(items=[Options(values={1: vector(i), -7: vector(-i)}) for i in range(MANY)]))
    restored = from_bytes(Choices, data, into="numpy")
    assert len({id(one) for one in restored.items}) == len({id(one.values) for one in restored.items}) == MANY
    tree = decode(pack({str(i): {"list": [1, {}], "array": vector(i)} for i in range(MANY)}))
    assert len({id(one["list"]) for one in tree.values()}) == len({id(one["list"][1]) for one in tree.values()}) == MANY


def test_arrays_are_read_only_views_whatever_their_place() -> None:
    data = to_bytes(Arrays(items=[vector(i) for i in range(MANY)]))
    for one in from_bytes(Arrays, data, into="numpy").items:
        assert not one.flags.writeable
        assert not one.flags.owndata


def test_sequences_stored_in_another_order() -> None:
    """Keys that begin as if they were counted, and then are not, must not be taken by their place."""
    numbers = [0, 2, 1, *range(3, MANY)]
    data = pack({"items": {str(i): vector(i) for i in numbers}})
    assert [one[0] for one in from_bytes(Arrays, data, into="numpy").items] == list(range(MANY))
    data = pack({"items": {str(i): vector(i) for i in reversed(range(MANY))}})
    assert [one[0] for one in from_bytes(Arrays, data, into="numpy").items] == list(range(MANY))
    data = pack({"items": {key: vector(int(key)) for key in sorted(map(str, range(120)))}})
    assert [one[0] for one in from_bytes(Arrays, data, into="numpy").items] == list(range(120))


def test_keys_whose_texts_join_to_those_of_a_count() -> None:
    text = "".join(map(str, range(9, 101)))  # "91011…": as wide as 92 keys of two characters
    keys = [text[i : i + 2] for i in range(0, len(text), 2)]
    entries = [(str(i), pack(i)) for i in range(9)] + [(key, pack(vector(0))) for key in keys]
    data = b"\xde" + len(entries).to_bytes(2, "big") + b"".join(pack(key) + value for key, value in entries)
    with pytest.raises(CorruptCheckpointError, match="expected each key once, got some again at byte 30"):
        decode(data)
    distinct = {key: vector(i) for i, key in enumerate(dict.fromkeys(keys))}
    same(decode(pack(distinct)), distinct)


def test_missing_and_repeated_items_are_told() -> None:
    keys = [str(i) for i in range(MANY) if i != 13]
    with pytest.raises(StateMismatchError, match=r"^expected float32\[a=2\], got nothing at \$\.items\[13\]"):
        from_bytes(Arrays, pack({"items": {key: vector(1) for key in keys}}), into="numpy")
    rows = b"".join(pack(str(10 + i % 50)) + pack(vector(i)) for i in range(80))
    with pytest.raises(CorruptCheckpointError, match="expected each key once, got some again"):
        from_bytes(Arrays, b"\x81" + pack("items") + b"\xde\x00\x50" + rows, into="numpy")


def test_an_array_in_many_parts_beside_sequences() -> None:
    """The parts of a stored array are alike items too, but not of a sequence that the class knows."""
    whole = np.arange(4000, dtype=np.float32)
    obj = Everything(whole=whole, items=LAYERS, after=[linear(i, count=i) for i in range(MANY)])
    data = pack(to_state_dict(obj), chunk_bytes=64)
    for _ in range(MANY):  # a freed dict's id comes back sooner or later
        same(from_bytes(Everything, data, into="numpy"), obj)
    found: runs.Runs = {}
    same(decode(data, found)["whole"], whole)
    assert len(found) == 1


def test_validators_see_the_items_themselves() -> None:
    rising = Rising(knots=[np.array(i, np.float32) for i in range(MANY)])
    holds(Rising, rising)
    by_name = RisingByName(knots={str(i): np.array(i, np.float32) for i in range(MANY)})
    holds(RisingByName, by_name)
    falling = pack({"knots": {str(i): np.array(-i, np.float32) for i in range(MANY)}})
    for cls in (Rising, RisingByName):
        with pytest.raises(ValueError, match="knots must rise"):
            from_bytes(cls, falling, into="numpy")


def test_what_a_validator_would_refuse_on_restore_is_not_saved() -> None:
    positives = [Positive(value=np.array(i + 1, np.float32)) for i in range(MANY)]
    holds(Positives, Positives(items=positives))
    wrong = Positives(items=[*positives, negated(positives[0])])
    with pytest.raises(ValueError, match="must be positive"):
        to_bytes(wrong)
    with pytest.raises(ValueError, match="must be positive"):
        from_bytes(Positives, plain_bytes(wrong), into="numpy")
    rising = Rising(knots=[np.array(i, np.float32) for i in range(MANY)])
    with pytest.raises(ValueError, match="knots must rise"):
        to_bytes(negated(rising))


def test_converters_run_once_for_each_item() -> None:
    data = to_bytes(CountedAll(items=[Counted(value=vector(i), count=0) for i in range(MANY)]))
    assert [one.count for one in from_bytes(CountedAll, data, into="numpy").items] == [2] * MANY


def test_keys_of_other_types_are_not_the_same_keys() -> None:
    items = [Options(values={1: vector(i)}) for i in range(MANY)]
    items[7] = Options(values={True: vector(7)})
    with pytest.raises(StateMismatchError):
        to_bytes(Choices(items=items))


def test_sequences_of_sequences_of_scalars_leave_no_trace() -> None:
    """Inner sequences are written, found alike, and dropped: nothing may be known by their ids any more."""
    point = Point(x=1, y=2)
    for count in range(4, 40):
        holds(
            Grid,
            Grid(
                rows=[[point] * 5 for _ in range(count)],
                layers=[linear(i) for i in range(6)],
                table={str(i): Point(x=i, y=i) for i in range(count)},
            ),
        )


@pytest.mark.parametrize("chunk_bytes", [4, 24, 32, 400])
def test_alike_arrays_over_the_chunk_size(chunk_bytes: int) -> None:
    stack = Stack(layers=[linear(i) for i in range(MANY)])  # kernels of 24 bytes, biases of 12
    data = join_pieces(stack, chunk_bytes=chunk_bytes)
    assert data == pack(to_state_dict(stack), chunk_bytes=chunk_bytes)
    same(from_bytes(Stack, data, into="numpy"), stack)


def test_traced_arrays_are_told_as_such(tmp_path: Any) -> None:
    def traced(x: jax.Array) -> jax.Array:
        items = Devices(items=tuple(x + i for i in range(6)))
        with pytest.raises(TreatyError, match=r"^expected arrays with contents, got traced ones"):
            to_bytes(items)
        with pytest.raises(TreatyError, match=r"^expected arrays with contents, got traced ones"):
            save(tmp_path / "x.msgpack", items)
        return x

    jax.jit(traced)(jnp.zeros(2))


@pytest.mark.parametrize("shape", [(0, 2**58), (2**58, 0), (1,) * 64, (0,), (0,) * 64, ()])
def test_alike_arrays_of_unusual_shapes(shape: tuple[int, ...]) -> None:
    tree = {str(i): np.zeros(shape, np.float32) for i in range(MANY)}
    same(decode(pack(tree)), tree)
    same(flax.serialization.msgpack_restore(pack(tree)), tree)


def test_many_alike_entries_with_one_bad_key_cost_no_more_than_reading_them() -> None:
    rows = [b"\xa6%06d" % i + pack(vector(0)) for i in range(30_000)]
    rows[-1] = b"\xa6" + b"\xff" * 6 + pack(vector(0))
    data = b"\xdf" + len(rows).to_bytes(4, "big") + b"".join(rows)
    at = len(data) - len(rows[-1]) + 1
    with pytest.raises(CorruptCheckpointError, match=f"^expected UTF-8, got other bytes at byte {at}"):
        decode(data)


def test_keys_that_hash_alike_are_no_keys() -> None:
    """Looking up 2,000 of them takes a minute where each costs a comparison with all others."""
    numbers = (msgpack.ExtType(2, msgpack.packb((1000003.0 * i, -float(i)))) for i in range(200_000))
    data = b"\xdf" + (200_000).to_bytes(4, "big") + b"".join(msgpack.packb(one) + b"\xc0" for one in numbers)
    with pytest.raises(CorruptCheckpointError, match=r"^expected a key, got a complex at byte 5"):
        decode(data)


def scalars(*values: float) -> list[HostArray]:
    return [np.array(value, np.float32) for value in values]


def containers() -> Containers:
    arrays = {str(i): vector(i) for i in range(MANY)}
    return Containers(
        maybe=list(LAYERS),
        nested=[[vector(i + j) for j in range(9)] for i in range(9)],
        by_name={str(i): one for i, one in enumerate(LAYERS)},
        by_number=dict(enumerate(LAYERS)),
        untyped={"deep": {"arrays": arrays, "scalars": {str(i): i for i in range(MANY)}}, "list": arrays},
    )


@pytest.mark.parametrize(
    "obj", [Stack(layers=LAYERS), Everything(whole=vector(1), items=LAYERS, after=LAYERS[::-1]), containers()], ids=type
)
def test_the_shortcut_is_taken(obj: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Or it could be lost without a trace."""
    data = plain_bytes(obj)
    expected = plain_object(type(obj), data)
    monkeypatch.setattr(instances, "_plain", None)
    decoded = Mock(side_effect=decode)
    monkeypatch.setattr(instances, "decode", decoded)

    assert to_bytes(obj) == data
    save(tmp_path / "x.msgpack", obj)
    same(from_bytes(type(obj), data, into="numpy"), expected)

    assert (tmp_path / "x.msgpack").read_bytes() == data
    assert decoded.call_count == 1


def own_state(cls: type, values: list[HostArray]) -> dict[str, Any]:
    knots = {"knots": dict(zip(map(str, range(MANY)), values, strict=True))}
    if cls is OwnErrors:
        return {"before": dict.fromkeys(map(str, range(9)), knots), **knots}
    return {"foreign": knots} if cls is HoldsForeign else knots


@pytest.mark.parametrize("cls", OWN)
def test_users_own_errors_are_those_of_their_data(cls: type, tmp_path: Any) -> None:
    """Their code never sees one item in the place of others, so what it raises, whatever that is, is meant."""
    rising: Any = from_bytes(cls, pack(own_state(cls, scalars(*range(MANY)))), into="numpy")
    holds(cls, rising)
    with pytest.raises(Refused, match="they fall"):
        from_bytes(cls, pack(own_state(cls, scalars(*range(MANY, 0, -1)))), into="numpy")
    with pytest.raises(Refused, match="they fall"):
        to_bytes(negated(rising))
    with pytest.raises(Refused, match="they fall"):
        save(tmp_path / "x.msgpack", negated(rising))


@pytest.mark.parametrize("error", [MemoryError, RecursionError, KeyboardInterrupt, SystemExit])
def test_what_is_no_matter_of_alike_items_is_not_tried_again(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    def fail(*_: object) -> Any:
        raise error

    obj = Stack(layers=LAYERS)
    data = to_bytes(obj)
    for name in ("columns_of", "repeat_like"):
        monkeypatch.setattr(alike, name, fail)
    with pytest.raises(error):
        to_bytes(obj)
    with pytest.raises(error):
        save(tmp_path / "x.msgpack", obj)
    with pytest.raises(error):
        from_bytes(Stack, data, into="numpy")


def test_members_that_call_themselves_equal_are_two() -> None:
    twins = [Twin(value=np.array(i, np.float32), which=Twins.OTHER if i == 7 else Twins.ONE) for i in range(MANY)]
    which = [one.which for one in from_bytes(AllTwins, to_bytes(AllTwins(items=twins)), into="numpy").items]
    assert [one is Twins.OTHER for one in which] == [i == 7 for i in range(MANY)]


def test_arrays_that_are_gone_are_told_as_without_the_shortcut() -> None:
    items = tuple(jnp.full(3, i, np.float32) for i in range(MANY))
    items[7].delete()
    with pytest.raises(RuntimeError, match="deleted"):
        to_bytes(Devices(items=items))
