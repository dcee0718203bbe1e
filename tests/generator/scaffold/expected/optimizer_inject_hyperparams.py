"""The state that `inject_hyperparams:make_state` makes, as `treaty scaffold` saw it: yours to edit."""

from typing import Annotated

from jax import Array
from jaxtyping import Float32
from treaty.schema import Dims, state
from treaty.schema.library.optax import AdamW, EmptyState, InjectStatefulHyperparamsState, WrappedScheduleState


@state
class Linear:
    w: Float32[Array, "d_in d_out"]
    b: Float32[Array, "d_out"]


@state
class Params:
    down: Annotated[Linear, Dims(d_in="d_ff", d_out="d_in")]
    up: Annotated[Linear, Dims("d_in", d_out="d_ff")]


@state
class Hyperparams:
    b1: Float32[Array, ""]
    b2: Float32[Array, ""]
    eps: Float32[Array, ""]
    eps_root: Float32[Array, ""]
    learning_rate: Float32[Array, ""]
    weight_decay: Float32[Array, ""]


@state
class HyperparamsStates:
    learning_rate: WrappedScheduleState


@state
class TrainState:
    params: Annotated[Params, Dims(...)]
    opt_state: Annotated[
        InjectStatefulHyperparamsState[Hyperparams, HyperparamsStates, AdamW[Params, EmptyState]], Dims(...)
    ]
