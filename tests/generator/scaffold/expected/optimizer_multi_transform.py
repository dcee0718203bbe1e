"""The state that `multi_transform:make_state` makes, as `treaty scaffold` saw it: yours to edit."""

from typing import Annotated

from jax import Array
from jaxtyping import Float32
from treaty.schema import Dims, state
from treaty.schema.library.optax import AdamW, EmptyState, MaskedNode, MaskedState, PartitionState


@state
class Linear:
    w: Float32[Array, "d_in d_out"]
    b: Float32[Array, "d_out"]


@state
class Params:
    down: Annotated[Linear, Dims(d_in="d_ff", d_out="d_in")]
    up: Annotated[Linear, Dims("d_in", d_out="d_ff")]


@state
class Down:
    w: Float32[Array, "d_in d_out"]
    b: MaskedNode


@state
class MaskedParams:
    down: Annotated[Down, Dims(d_in="d_ff", d_out="d_in")]
    up: Annotated[Down, Dims("d_in", d_out="d_ff")]


@state
class InnerStates:
    matrix: Annotated[MaskedState[AdamW[MaskedParams, EmptyState]], Dims(...)]
    vector: MaskedState[tuple[EmptyState, EmptyState]]


@state
class TrainState:
    params: Annotated[Params, Dims(...)]
    opt_state: Annotated[PartitionState[InnerStates], Dims(...)]
