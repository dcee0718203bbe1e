"""What is stored is what comes back: a value that would return as another is refused on every way out."""

import dataclasses
import enum
import math
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import attrs
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.tree_util import Partial
from jaxtyping import Float32, Key

from treaty.generator import load
from treaty.runtime import StateMismatchError, codec, from_state_dict, restore, save, to_bytes, to_state_dict
from treaty.runtime.formats import npz, orbax
from treaty.schema import Dims, Fields, TreatyError, field, state


class Pair(NamedTuple):
    x: Any
    y: Any


class Twin(NamedTuple):
    x: Any
    y: Any


class Info(TypedDict):
    name: str


class Color(enum.Enum):
    RED = 1


class Colour(enum.Enum):
    RED = 1


class Text(str):
    pass


def add(x: Any, y: Any) -> Any:
    return x + y


@state
class Item:
    w: Float32[Array, "d"]


@attrs.frozen
class Loose:
    n: int


class LooseToo(Loose):
    pass


@state
class Values:
    a_list: list[int] = field(factory=list)
    a_tuple: tuple[int, ...] = ()
    a_pair: tuple[int, str] = (1, "a")
    items: Annotated[tuple[Item, ...], Dims(None)] = ()
    nested: list[tuple[int, ...]] = field(factory=list)
    by_name: dict[str, int] = field(factory=dict)
    by_number: Annotated[dict[int, Item], Dims(None)] = field(factory=dict)
    info: Info = field(factory=lambda: Info(name="n"))
    loose: Loose = Loose(1)
    foreign: Annotated[Pair, Fields(x=int, y=int)] = Pair(1, 2)
    call: Annotated[Partial, Fields(func=add, args=(int,), keywords={})] = Partial(add, 1)  # type: ignore[no-untyped-call]
    color: Color = Color.RED
    rng: Key[Array, ""] = field(factory=lambda: jax.random.key(0))
    array: Float32[np.ndarray, "n"] = field(factory=lambda: np.zeros(2, np.float32))
    an_int: int = 0
    a_float: float = 0.0
    a_bool: bool = False
    a_str: str = ""
    a_bytes: bytes = b""
    a_complex: complex = 0j
    none: None = None


load(Values)


def item() -> Item:
    return Item(w=jnp.ones(2))


LOSSY: dict[str, tuple[str, Any, str]] = {
    "a tuple for a list": ("a_list", (1, 2), "expected list, got tuple at $.a_list"),
    "a list for a tuple": ("a_tuple", [1, 2], "expected tuple, got list at $.a_tuple"),
    "a NamedTuple for a tuple": ("a_tuple", Pair(1, 2), "expected tuple, got Pair at $.a_tuple"),
    "a list for a pair": ("a_pair", [1, "a"], "expected tuple of 2, got list at $.a_pair"),
    "a tuple that is too long": ("a_pair", (1, "a", "b"), "expected tuple of 2, got tuple of 3 at $.a_pair"),
    "a tuple that is too short": ("a_pair", (1,), "expected tuple of 2, got tuple of 1 at $.a_pair"),
    "a list of items for a tuple": ("items", [item()], "expected tuple, got list at $.items"),
    "a list inside": ("nested", [(1,), [2]], "expected tuple, got list at $.nested[1]"),
    "a Counter": ("by_name", Counter("a"), "expected dict[str, ...], got Counter at $.by_name"),
    "a defaultdict": ("by_number", defaultdict(item), "expected dict[int, ...], got defaultdict at $.by_number"),
    "two keys of one text": (
        "by_number",
        {1: item(), "1": item()},
        "expected an int as key, got str '1' at $.by_number",
    ),
    "a bool as key": ("by_number", {True: item()}, "expected an int as key, got bool True at $.by_number"),
    "a numpy key": (
        "by_number",
        {np.int64(1): item()},
        "expected an int as key, got numpy scalar int64 at $.by_number",
    ),
    "an int as key": ("by_name", {1: 1}, "expected a str as key, got int 1 at $.by_name"),
    "a str of a subclass as key": ("by_name", {Text("a"): 1}, "expected a str as key, got Text at $.by_name"),
    "a defaultdict for a TypedDict": (
        "info",
        defaultdict(str, name="n"),
        "expected Info as a dict, got defaultdict at $.info",
    ),
    "a TypedDict with more": (
        "info",
        {"name": "n", "more": 1},
        "expected no such key in Info, got int 1 at $.info.more",
    ),
    "a TypedDict with less": ("info", {}, "expected str, got nothing at $.info.name"),
    "a subclass": ("loose", LooseToo(1), "expected Loose, got an instance of LooseToo at $.loose"),
    "another NamedTuple": ("foreign", Twin(1, 2), "expected Pair, got an instance of Twin at $.foreign"),
    "another class in a dict": (
        "by_number",
        {1: item(), 2: Loose(1)},
        "expected Item, got an instance of Loose at $.by_number['2']",
    ),
    "a Partial of another function": (
        "call",
        Partial(max, 1),  # type: ignore[no-untyped-call]
        "expected a Partial of add, got one of max at $.call",
    ),
    "a Partial with more": ("call", Partial(add, 1, 2), "expected tuple of 1, got tuple of 2 at $.call.args"),  # type: ignore[no-untyped-call]
    "a Partial with keywords": (
        "call",
        Partial(add, 1, y=2),  # type: ignore[no-untyped-call]
        "expected no such key in the keywords of a Partial, got int 2 at $.call.keywords.y",
    ),
    "another enum": ("color", Colour.RED, "expected a member of Color, got an instance of Colour at $.color"),
    "the words of a key": ("rng", jnp.zeros(2, jnp.uint32), "expected key[], got uint32[2] at $.rng"),
}


@pytest.mark.parametrize("case", LOSSY)
def test_a_container_or_class_other_than_declared_is_refused_by_every_way_out(case: str, tmp_path: Path) -> None:
    name, value, message = LOSSY[case]
    state: Any = Values(**{name: value})
    for way in (to_state_dict, to_bytes):
        with pytest.raises(StateMismatchError) as caught:
            way(state)
        assert str(caught.value) == message
    for write in WRITERS.values():
        with pytest.raises(StateMismatchError) as caught:
            write(tmp_path, state)
        assert str(caught.value) == message
    assert not list(tmp_path.iterdir())


WRITERS: dict[str, Callable[[Path, Any], object]] = {
    "msgpack": lambda folder, state: save(folder / "x.msgpack", state),
    "gz": lambda folder, state: save(folder / "x.msgpack.gz", state),
    "zst": lambda folder, state: save(folder / "x.msgpack.zst", state),
    "safetensors": lambda folder, state: save(folder / "x.safetensors", state),
    "directory": lambda folder, state: save(folder / "x", state),
    "npz": lambda folder, state: npz.write(folder / "x.npz", state),
    "orbax": lambda folder, state: orbax.write(folder / "x", state),
}


class Number(int):
    pass


class Level(enum.IntEnum):
    LOW = 0


LEAVES: dict[str, tuple[str, Any]] = {
    "a bool for an int": ("an_int", True),
    "an IntEnum for an int": ("an_int", Level.LOW),
    "an int of a subclass": ("an_int", Number(1)),
    "a numpy int for an int": ("an_int", np.int64(1)),
    "an array for an int": ("an_int", np.zeros((), int)),
    "a bool for a float": ("a_float", True),
    "a numpy float for a float": ("a_float", np.float64(1)),
    "an int that no float holds": ("a_float", 2**53 + 1),
    "an int for a bool": ("a_bool", 1),
    "a numpy bool for a bool": ("a_bool", np.True_),
    "a str of a subclass": ("a_str", Text("a")),
    "a numpy str": ("a_str", np.str_("a")),
    "bytes for a str": ("a_str", b"a"),
    "a bytearray for bytes": ("a_bytes", bytearray(b"a")),
    "numpy bytes for bytes": ("a_bytes", np.bytes_(b"a")),
    "a numpy complex": ("a_complex", np.complex128(1)),
    "false for None": ("none", False),
    "a masked array": ("array", np.ma.masked_array(np.zeros(2, np.float32), [True, False])),
    "an array of another dtype": ("array", np.zeros(2)),
    "an array of another byte order": ("array", np.zeros(2, ">f4")),
    "a list for an array": ("array", [0.0, 1.0]),
}


@pytest.mark.parametrize("case", LEAVES)
def test_a_leaf_of_another_type_is_refused_by_every_save(case: str, tmp_path: Path) -> None:
    name, value = LEAVES[case]
    state: Any = Values(**{name: value})
    for write in WRITERS.values():
        with pytest.raises(StateMismatchError, match=rf"at \$\.{name}$"):
            write(tmp_path, state)
    with pytest.raises(StateMismatchError):
        to_bytes(state)
    assert not list(tmp_path.iterdir())
    with pytest.raises(StateMismatchError):
        from_state_dict(Values, to_state_dict(state))


def test_an_int_that_a_float_holds_is_a_float_as_in_python_itself() -> None:
    restored = from_state_dict(Values, to_state_dict(Values(a_float=3, a_complex=2.5)))
    assert (restored.a_float, restored.a_complex) == (3.0, 2.5 + 0j)


def test_an_ordered_dict_is_a_dict_as_the_state_of_a_named_chain_is() -> None:
    restored = from_state_dict(Values, to_state_dict(Values(by_name=OrderedDict(b=1, a=2))))
    assert list(restored.by_name.items()) == [("b", 1), ("a", 2)]


@state
class Deep:
    layers: list[dict[str, Item]]


def test_a_wrong_class_is_told_with_its_place_and_module() -> None:
    @state
    class Item:
        w: Float32[Array, "d"]

    load(Deep)
    wrong: Any = Deep(layers=[{}, {"a": item(), "b": Item(w=jnp.ones(1))}])  # type: ignore[dict-item]
    with pytest.raises(StateMismatchError) as caught:
        to_state_dict(wrong)
    here = __name__
    assert str(caught.value) == (
        f"expected {here}.Item, got an instance of {here}.{Item.__qualname__} at $.layers[1].b"
    )


class Affine(eqx.Module):
    """A module with an `__init__` of its own, as most have."""

    weight: Array
    bias: Array | None
    size: int = eqx.field(static=True)

    def __init__(self, size: int, *, key: Any) -> None:
        self.weight = jax.random.normal(key, (size, size))
        self.bias = None
        self.size = size


@dataclasses.dataclass(frozen=True)
class Frozen:
    total: Any
    half: Any = dataclasses.field(init=False)

    def __init__(self, total: float) -> None:
        object.__setattr__(self, "total", total)
        object.__setattr__(self, "half", total / 2)


@attrs.frozen(init=False)
class Own:
    x: Any

    def __init__(self, doubled: float) -> None:
        self.__attrs_init__(doubled / 2)


@state
class Foreigners:
    affine: Annotated[Affine, Fields(weight=Float32[Array, "n n"], bias=Float32[Array, "n"] | None, size=int)]
    linear: Annotated[
        eqx.nn.Linear,
        Fields(
            weight=Float32[Array, "o i"],
            bias=Float32[Array, "o"] | None,
            in_features=int,
            out_features=int,
            use_bias=bool,
        ),
    ]
    frozen: Annotated[Frozen, Fields(total=float, half=float)]
    own: Annotated[Own, Fields(x=float)]


load(Foreigners)


def foreigners(seed: int) -> Foreigners:
    key = jax.random.key(seed)
    return Foreigners(
        affine=Affine(3, key=key), linear=eqx.nn.Linear(2, 3, key=key), frozen=Frozen(seed + 1.0), own=Own(seed + 1.0)
    )


@pytest.mark.parametrize("suffix", [".msgpack", ".safetensors", ""])
def test_classes_with_an_init_of_their_own_come_back(suffix: str, tmp_path: Path) -> None:
    value = foreigners(1)
    save(tmp_path / f"x{suffix}", value)
    for target in (Foreigners, foreigners(2)):
        if target is not Foreigners:
            target = attrs.evolve(target)  # type: ignore[misc]
        restored = restore(tmp_path / f"x{suffix}", target)
        assert type(restored.affine) is Affine
        assert type(restored.linear) is eqx.nn.Linear
        assert (restored.frozen, restored.own) == (value.frozen, value.own)
        assert restored.affine.size == 3
        np.testing.assert_array_equal(restored.affine.weight, value.affine.weight)
        np.testing.assert_array_equal(restored.linear(jnp.ones(2)), value.linear(jnp.ones(2)))


def test_a_field_with_no_type_is_refused_when_the_schema_is_read() -> None:
    @state
    class Holder:
        affine: Annotated[Affine, Fields(weight=Float32[Array, "n n"])]

    with pytest.raises(TreatyError, match=r"no type for bias, size of Affine"):
        load(Holder)


def test_a_class_that_cannot_be_made_again_is_refused_by_every_save(tmp_path: Path) -> None:
    @attrs.frozen
    class Fussy:
        n: int = attrs.field()

        @n.validator
        def _check(self, attribute: Any, value: int) -> None:
            if limits and value > limits[0]:
                raise ValueError("too large")

    limits: list[int] = []

    @state
    class Holder:
        fussy: Fussy

    load(Holder)
    value = Holder(fussy=Fussy(3))
    limits.append(2)
    for write in WRITERS.values():
        with pytest.raises((TreatyError, ValueError), match="too large"):
            write(tmp_path, value)
    assert not list(tmp_path.iterdir())


def test_nan_and_signed_zero_are_kept() -> None:
    restored = from_state_dict(Values, to_state_dict(Values(a_float=-0.0)))
    assert math.copysign(1, restored.a_float) == -1


@state
class OwnState:
    x: float
    y: int

    def __init__(self, doubled: float) -> None:
        self.__attrs_init__(x=doubled / 2, y=3)  # type: ignore[attr-defined]


load(OwnState)


def test_a_field_is_replaced_whatever_the_init_of_the_class_takes() -> None:
    found = codec.replaced(OwnState(2.0), {"y": 5})
    assert (type(found), found.x, found.y) == (OwnState, 1.0, 5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        codec.replaced(OwnState(2.0), {"z": 5})
