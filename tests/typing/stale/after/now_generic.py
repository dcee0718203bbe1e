"""A class becomes generic. This is the schema after."""


from typing import Generic, TypeVar

from jax import Array
from jaxtyping import Float32

from treaty.schema import state

P = TypeVar("P")


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Box(Generic[P]):
    inside: P
