"""The state that `adamw_with_mask:make_state` makes, as `treaty scaffold` saw it: yours to edit."""

from typing import Annotated

from jax import Array
from jaxtyping import Float32
from treaty.schema import Dims, state
from treaty.schema.library.optax import AdamState, EmptyState, MaskedState


@state
class Linear:
    w: Float32[Array, "d_in d_out"]
    b: Float32[Array, "d_out"]


@state
class Params:
    down: Annotated[Linear, Dims(d_in="d_ff", d_out="d_in")]
    up: Annotated[Linear, Dims("d_in", d_out="d_ff")]


@state
class TrainState:
    params: Annotated[Params, Dims(...)]
    opt_state: Annotated[tuple[AdamState[Params], MaskedState[EmptyState], EmptyState], Dims(...)]
