"""Fields get other types. This is the schema before."""

from typing import Annotated

from jax import Array
from jaxtyping import Float32

from treaty.schema import Dims, state


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Run:
    step: int
    layers: Annotated[tuple[Linear, ...], Dims(None)]
    best: Annotated[Linear, Dims(None)]
