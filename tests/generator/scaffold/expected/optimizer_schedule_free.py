"""The state that `schedule_free:make_state` makes, as `treaty scaffold` saw it: yours to edit."""

from typing import Annotated

from jax import Array
from jaxtyping import Float32, Int32
from treaty.schema import Dims, state
from treaty.schema.library.optax import EmptyState


@state
class Linear:
    w: Float32[Array, "d_in d_out"]
    b: Float32[Array, "d_out"]


@state
class Params:
    down: Annotated[Linear, Dims(d_in="d_ff", d_out="d_in")]
    up: Annotated[Linear, Dims("d_in", d_out="d_ff")]


@state
class ScaleByRmsWithCountState:
    count: Int32[Array, ""]
    nu: Annotated[Params, Dims(...)]


@state
class ScheduleFreeState:
    b1: Float32[Array, ""]
    weight_sum: Float32[Array, ""]
    step_count: Int32[Array, ""]
    max_lr: Float32[Array, ""]
    base_optimizer_state: Annotated[tuple[ScaleByRmsWithCountState, EmptyState, EmptyState], Dims(...)]
    z: Annotated[Params, Dims(...)]


@state
class TrainState:
    params: Annotated[Params, Dims(...)]
    opt_state: Annotated[ScheduleFreeState, Dims(...)]
