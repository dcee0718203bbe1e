"""Generic classes: one declaration, one codec for each use."""

from typing import Annotated, Generic, TypeVar

from jax import Array
from jaxtyping import Int32
from schemas.model import Linear

from treaty.schema import Dims, state

P = TypeVar("P")


@state
class Adam(Generic[P]):
    count: Int32[Array, ""]
    mu: P
    nu: P


@state
class Run:
    params: Annotated[Linear, Dims(...)]
    opt: Annotated[Adam[Linear], Dims(...)]
    best: Annotated[Adam[Linear] | None, Dims(None)] = None
