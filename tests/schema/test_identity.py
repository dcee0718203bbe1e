"""What a class is known by: two that read or write differently are never one, and one object goes by one name."""

import enum
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import Array
from jax.tree_util import Partial
from jaxtyping import BFloat16, Float32, Int32, Key

from treaty.generator import load
from treaty.runtime import StateMismatchError, from_state_dict, to_state_dict
from treaty.schema import ArraySpec, Dims, Fields, Length, Schema, SchemaError, schema_of, state

P = TypeVar("P")
LIST: Any = list  # as Any: mypy reads subscripts of the classes themselves as types
TUPLE: Any = tuple
DICT: Any = dict
ANNOTATED: Any = Annotated


@state
class Box(Generic[P]):
    item: P


BOX: Any = Box


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]


class Pair(NamedTuple):
    one: Any
    two: Any


class Colour(enum.Enum):
    RED = 1


class Shade(enum.Enum):
    RED = 1


def scaled(*_: Any, **__: Any) -> None: ...
def shifted(*_: Any, **__: Any) -> None: ...


def partial(func: Any = scaled, args: tuple[Any, ...] = (int,), **keywords: Any) -> Any:
    return ANNOTATED[Partial, Fields(func=func, args=args, keywords=keywords)]


PARTIAL: Any = partial


def pair(one: Any, two: Any = int) -> Any:
    return ANNOTATED[Pair, Fields(one=one, two=two)]


# Each row: types no two of which mean the same, most of them apart in one attribute only.
ALONE: tuple[tuple[Any, ...], ...] = (
    (
        Float32[Array, "d"],
        Float32[np.ndarray, "d"],
        Float32[Array, "e"],
        Float32[Array, "d 1"],
        Float32[Array, "d=3"],
        Float32[Array, "3"],
        Int32[Array, "d"],
        BFloat16[Array, "d"],
        ANNOTATED[Array, ArraySpec("float8_e4m3", "d")],
        ANNOTATED[np.ndarray, ArraySpec("float8_e4m3", "d")],
        Key[Array, "d"],
        ANNOTATED[Array, ArraySpec("key<rbg>", "d")],
        ANNOTATED[Array, ArraySpec("key<unsafe_rbg>", "d")],
    ),
    (int, float, bool, str, bytes, complex, None, np.int32, np.float32, Colour, Shade, Any),
    (
        Linear,
        ANNOTATED[Linear, Dims(d_in=3)],
        ANNOTATED[Linear, Dims(d_in=4)],
        ANNOTATED[Linear, Dims(d_in="d_out")],
        ANNOTATED[Linear, Dims(d_in="2*d_out")],
        BOX[Linear],
        BOX[ANNOTATED[Linear, Dims(d_in=3)]],
    ),
    (
        partial(),
        partial(shifted),
        partial(args=(float,)),
        partial(args=(int, int)),
        partial(args=(ANNOTATED[Linear, Dims(d_in=3, d_out=None)],)),
        partial(args=(ANNOTATED[Linear, Dims(None)],)),
        partial(a=int),
        partial(b=int),
        partial(a=float),
        PARTIAL(**{"a: int, b": int}),
        partial(a=int, b=int),
    ),
    (
        pair(int),
        pair(float),
        pair(Float32[Array, "d"]),
        pair(Float32[np.ndarray, "d"]),
        pair(ANNOTATED[Linear, Dims(None)]),
        pair(ANNOTATED[Linear, Dims(...)]),
        pair(ANNOTATED[Linear, Dims(..., d_in=3)]),
        pair(ANNOTATED[Linear, Dims(d_in=3, d_out=None)]),
        pair(partial(args=(float,))),
        pair(partial(args=(int,))),
        pair(int, partial()),
    ),
)


def around(item: Any) -> tuple[Any, ...]:
    """Types that hold an item, no two of which mean the same."""
    return (
        item,
        LIST[item],
        ANNOTATED[LIST[item], Length(2)],
        ANNOTATED[LIST[item], Length(3)],
        ANNOTATED[LIST[item], Length("n")],
        TUPLE[item, ...],
        ANNOTATED[TUPLE[item, ...], Length(2)],
        TUPLE[item],
        TUPLE[item, item],
        DICT[str, item],
        ANNOTATED[DICT[str, item], Length(2)],
        DICT[int, item],
        BOX[item],
    )


@st.composite
def different(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two types that differ in exactly one place: in a leaf, or in what is around it."""
    row = draw(st.sampled_from(ALONE))
    one, other = draw(st.lists(st.sampled_from(range(len(row))), min_size=2, max_size=2, unique=True))
    both = (row[one], row[other])
    if draw(st.booleans()):
        i, j = draw(st.lists(st.integers(0, 12), min_size=2, max_size=2, unique=True))
        both = (around(row[one])[i], around(row[one])[j])
    for _ in range(draw(st.integers(0, 2))):
        i = draw(st.integers(0, 12))
        both = (around(both[0])[i], around(both[1])[i])
    return both


def declare(**annotations: Any) -> Any:
    return state(type("Both", (), {"__annotations__": annotations, "__module__": __name__, "__qualname__": "Both"}))


@settings(max_examples=100, deadline=None)
@given(different())
def test_arguments_that_differ_in_anything_make_different_classes(both: tuple[Any, Any]) -> None:
    one, other = both
    alone = [schema_of(declare(x=BOX[item])) for item in both]
    schema = schema_of(declare(a=BOX[one], b=ANNOTATED[BOX[other], Dims(None)]))
    a, b = (ids(schema, index) for index in (0, 1))
    assert a != b
    for id, expected in zip((a, b), alone, strict=True):
        assert schema.at(id).to_json() == expected.at(ids(expected, 0)).to_json()
    assert Schema.from_json(schema.to_json()) == schema


def ids(schema: Schema, index: int) -> str:
    type: Any = schema.root_class.fields[index].type
    return str(type.cls)


def refuses(cls: Any, tree: dict[str, Any]) -> None:
    with pytest.raises(StateMismatchError):
        from_state_dict(cls, tree)


def test_a_length_belongs_to_one_instance_of_a_generic() -> None:
    @state
    class Lengths:
        a: Box[list[int]]
        b: Box[Annotated[list[int], Length(2)]]

    load(Lengths)
    three, two = {"0": 1, "1": 2, "2": 3}, {"0": 1, "1": 2}
    assert from_state_dict(Lengths, {"a": {"item": three}, "b": {"item": two}}).a.item == [1, 2, 3]
    refuses(Lengths, {"a": {"item": three}, "b": {"item": three}})


def test_host_and_device_belong_to_one_instance_of_a_generic() -> None:
    @state
    class Places:
        device: Box[Float32[Array, "d"]]
        host: Annotated[Box[Float32[np.ndarray, "d"]], Dims(None)]

    load(Places)
    array = np.ones(2, np.float32)
    restored = from_state_dict(Places, {"device": {"item": array}, "host": {"item": array}})
    assert isinstance(restored.device.item, jax.Array)
    assert isinstance(restored.host.item, np.ndarray)


def test_arguments_of_a_partial_belong_to_one_instance_of_a_generic() -> None:
    @state
    class Calls:
        a: Box[Annotated[Partial, Fields(func=scaled, args=(int,))]]
        b: Box[Annotated[Partial, Fields(func=scaled, args=(str,))]]

    load(Calls)
    make: Any = Partial
    saved = to_state_dict(Calls(a=BOX(item=make(scaled, 1)), b=BOX(item=make(scaled, "b"))))
    assert from_state_dict(Calls, saved).b.item.args == ("b",)
    refuses(Calls, {"a": saved["b"], "b": saved["b"]})


def test_ties_belong_to_one_description_of_a_foreign_class() -> None:
    cls = declare(
        d=Float32[Array, "d_in d_out"],
        tied=pair(ANNOTATED[Linear, Dims(...)]),
        free=pair(ANNOTATED[Linear, Dims(None)]),
    )
    load(cls)
    two, three = Linear(kernel=jnp.ones((2, 2))), Linear(kernel=jnp.ones((3, 3)))
    saved = to_state_dict(cls(d=two.kernel, tied=Pair(two, 1), free=Pair(three, 1)))
    assert from_state_dict(cls, saved).free.one.kernel.shape == (3, 3)
    refuses(cls, {**saved, "tied": saved["free"]})


def test_two_classes_of_one_name_are_refused() -> None:
    def make(annotation: Any) -> Any:
        body = {"__annotations__": {"x": annotation}, "__module__": __name__, "__qualname__": "Cell"}
        return state(type("Cell", (), body))

    both = declare(a=make(int), b=make(str))
    with pytest.raises(
        SchemaError, match=r"Both.b: two different objects are called .*:Cell; give each a name of its own"
    ):
        schema_of(both)


def test_names_in_memory_do_not_meet() -> None:
    @state
    class A:
        @state
        class B:
            x: int

        b: B

    @state
    class A_B:
        x: str

    @state
    class Both:
        a: A
        b: A_B

    load(Both)
    restored = from_state_dict(Both, to_state_dict(Both(a=A(b=A.B(x=1)), b=A_B(x="b"))))
    assert restored.b.x == "b"
    assert restored.a.b.x == 1
