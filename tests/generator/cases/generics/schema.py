"""Generic classes: filled in, nested, bare, with a bound, and too deep to be named after all their arguments."""

from typing import Annotated, Generic, TypeVar

from jax import Array
from jaxtyping import Float32, Int32

from treaty.schema import Dims, state

__treaty__ = "tests.generator.cases.generics.expected"

P = TypeVar("P")
Q = TypeVar("Q")


@state
class Params:
    w: Float32[Array, "d_in d_out"]


B = TypeVar("B", bound=Params)


@state
class Adam(Generic[P]):
    count: Int32[Array, ""]
    mu: P
    nu: P


@state
class Chain(Generic[P, Q]):
    first: Annotated[Adam[P], Dims(None)]
    rest: tuple[Q, ...]


@state
class Bounded(Generic[B]):
    inner: B


@state
class Train:
    params: Annotated[Params, Dims(...)]
    opt: Annotated[Chain[Params, Float32[Array, "d_out"]], Dims(...)]
    other: Annotated[Adam[tuple[Params, int]], Dims(None)]


@state
class Deep:
    opt: Adam[Chain[Adam[Chain[Params, Params]], Adam[tuple[Adam[Params], int]]]]
