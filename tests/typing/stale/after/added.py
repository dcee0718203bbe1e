"""A field is added. This is the schema after."""

# stale: return linear_new(  # E: Missing named argument "scale"  [call-arg]

from jax import Array
from jaxtyping import Float32

from treaty.schema import state


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]
    scale: Float32[Array, ""]
