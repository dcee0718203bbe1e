"""A field is removed. This is the schema after."""

# stale: "bias": obj.bias,  # E: "Linear" has no attribute "bias"  [attr-defined]
# stale: return linear_new(  # E: Unexpected keyword argument "bias"  [call-arg]

from jax import Array
from jaxtyping import Float32

from treaty.schema import state


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
