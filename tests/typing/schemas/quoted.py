"""The same with annotations that are never evaluated, and with names from another module."""

from __future__ import annotations

from typing import Annotated, Generic, NamedTuple, TypeVar

from jax import Array
from jaxtyping import Float32, Int32
from schemas import language
from schemas.aliases import F32, Matrix
from schemas.language import Moments

from treaty.schema import Dims, field, state

T = TypeVar("T")


class Pair(NamedTuple):
    first: F32[Array, "n"]
    second: F32[Array, "n"]


@state
class Inner(Generic[T]):
    value: T
    scale: Float32[Array, "d"]


@state
class Outer:
    inner: Annotated[Inner[Int32[Array, "d"]], Dims(d="d_model")]
    later: Annotated[Later, Dims(...)]
    pair: Pair
    moments: Annotated[Moments, Dims(None)]
    matrix: Matrix
    mode: language.Mode
    plain: Annotated[language.Plain, Dims(n="d_model")]
    width: F32[Array, "d_model"]
    note: str = field(default="", static=True)


@state
class Later:
    value: Float32[Array, "d_model"]
