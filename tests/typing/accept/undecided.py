# ruff: noqa: F405 - dims look like names that the star might bring
"""Declarations that the text alone does not decide: the plugin says nothing, `treaty generate` has the word.

None of these is an example to follow, and some are wrong.
"""

import enum
import functools
from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    NamedTuple,
    NewType,
    Required,
    TypedDict,
    TypeVar,
)

import attrs
import jax
import jaxtyping
import numpy as np
from jax import Array
from jaxtyping import Float32, PRNGKeyArray
from nowhere import Unknown, unknown  # type: ignore[import-not-found]  # ty: ignore[import-not-found]
from schemas import language
from schemas.aliases import *  # noqa: F403 - the star is what this is about
from schemas.model import Linear

from treaty.schema import ArraySpec, Dims, Fields, Length, field, state

if TYPE_CHECKING:
    Conditional = Float32[Array, "a"]
else:
    Conditional = Float32[Array, "a?"]

T = TypeVar("T")
B = TypeVar("B", bound=Linear)
V = TypeVar("V", int, str)
SHAPE: Final = "a?"
TIES: Final[Any] = {"d_on": "d"}
UserId = NewType("UserId", int)
Pair = tuple[T, T]
Functional = NamedTuple("Functional", [("x", int)])  # noqa: UP014
Hyphens = TypedDict("Hyphens", {"a-b": int})


class Keyed(TypedDict):
    x: Required[int]


def declared(cls: type[T]) -> type[T]:
    return attrs.frozen(cls)  # ty: ignore[invalid-explicit-return]


@declared
class Declared:
    x: int


class Meta(type): ...


class Made(metaclass=Meta): ...


class Derived(Unknown): ...  # type: ignore[misc]


class Outside:
    class Inside(enum.Enum):
        A = 1


@attrs.frozen
class Wrong:
    """What is wrong here is said here, by `treaty generate`, and not at every class that uses it."""

    x: set[int]


def length() -> int:
    return 3


@state
class Fields1:
    missing: Unknown
    missing_items: list[Unknown]
    missing_with_fields: Annotated[Unknown, Fields(x=int)]
    missing_note: Annotated[int, unknown("x")]
    foreign_note: Annotated[int, functools.partial(int), "text", 3]
    maker: Annotated[int, length()]
    declared: Declared
    made: Made
    derived: Derived
    user: UserId
    functional: Functional
    hyphens: Hyphens
    keyed: Keyed
    pair: Pair[int]
    key: PRNGKeyArray
    starred: F32[Array, "a"]
    starred_alias: Matrix
    conditional: Conditional
    nested: Outside.Inside
    module: "language.Plain"
    computed_dims: Float32[Array, SHAPE]
    computed_dtype: Annotated[Array, ArraySpec(str(np.float32), "a")]
    computed_ties: Annotated[Linear, Dims(**TIES)]
    computed_length: Annotated[list[int], Length(length())]
    computed_key: int = field(key="a" + "b")
    wrong: Annotated[Wrong, Dims(...)]


@state(reserved=tuple("xy"))
class Evolved:
    x: int = field(aliases=tuple("xy"))
    y: int = field(default=int("3"))
    z: Float32[Array, "a"] = field(cast_from=("float33",) * 2)
    hyphens: Hyphens = {"a-b": 3}  # noqa: RUF012 - nobody changes it


@state
class Bounded(Generic[B]):
    inside: Annotated[B, Dims(d_on="d")]


@state
class Constrained(Generic[V]):
    inside: V


@state
class Base(Generic[T]):
    inside: T


@state
class Derived1(Base[Float32[Array, "d"]]):
    """What a subclass gives for its base's variables is not followed."""

    other: Float32[Array, "d"]


@state
class Uses:
    derived: Annotated[Derived1, Dims(d="d_model")]
    width: Float32[Array, "d_model"]


def local(callback: Callable[[], int]) -> None:
    from builtins import int as Array

    @state
    class Inside:
        x: jaxtyping.Float32[jax.Array, "a"]
        y: "Inside | None"
        z: Array

    print(Inside, callback)
