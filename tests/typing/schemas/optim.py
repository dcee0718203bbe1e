"""Generic classes: one declaration, one codec for each use."""

from typing import Generic, TypeVar

from jax import Array
from jaxtyping import Int32
from schemas.model import Linear

from treaty.schema import state

P = TypeVar("P")


@state
class Adam(Generic[P]):
    count: Int32[Array, ""]
    mu: P
    nu: P


@state
class Run:
    params: Linear
    opt: Adam[Linear]
    best: Adam[Linear] | None = None
