"""A field is renamed, without key= for the old name. This is the schema before."""

from jax import Array
from jaxtyping import Float32

from treaty.schema import state


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]
