"""The state that `multi_steps:make_state` makes, as `treaty scaffold` saw it: yours to edit."""

from typing import Annotated

from jax import Array
from jaxtyping import BFloat16, Float32
from treaty.schema import Dims, state
from treaty.schema.library.optax import AdamW, EmptyState, MultiStepsState


@state
class Linear:
    w: BFloat16[Array, "d_in d_out"]
    b: BFloat16[Array, "d_out"]


@state
class Params:
    down: Annotated[Linear, Dims(d_in="d_ff", d_out="d_in")]
    up: Annotated[Linear, Dims("d_in", d_out="d_ff")]


@state
class AccGradsLinear:
    w: Float32[Array, "d_in d_out"]
    b: Float32[Array, "d_out"]


@state
class AccGrads:
    down: Annotated[AccGradsLinear, Dims(d_in="d_ff", d_out="d_in")]
    up: Annotated[AccGradsLinear, Dims("d_in", d_out="d_ff")]


@state
class TrainState:
    params: Annotated[Params, Dims(...)]
    opt_state: Annotated[MultiStepsState[AdamW[Params, EmptyState], AccGrads, tuple[()]], Dims(...)]
