"""A field is renamed, without key= for the old name. This is the schema after."""

# stale: "kernel": obj.kernel,  # E: "Linear" has no attribute "kernel"  [attr-defined]
# stale: return linear_new(  # E: Unexpected keyword argument "kernel"  [call-arg]

from jax import Array
from jaxtyping import Float32

from treaty.schema import state


@state
class Linear:
    weight: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]
