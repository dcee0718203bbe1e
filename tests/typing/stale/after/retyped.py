"""Fields get other types. This is the schema after."""

# stale: "step": obj.step,  # E: "str"  [typeddict-item]

from jax import Array
from jaxtyping import Float32

from treaty.schema import state


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Run:
    step: str
    layers: list[Linear]
    best: Linear | None
