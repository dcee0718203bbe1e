"""The state that `adafactor:make_state` makes, as `treaty scaffold` saw it: yours to edit."""

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
class Down:
    w: Float32[Array, "d_out"]
    b: Float32[Array, "d_out_2"]


@state
class VRow:
    down: Annotated[Down, Dims(...)]
    up: Annotated[Down, Dims("d_out", d_out_2="d_out_3")]


@state
class FactoredState:
    count: Int32[Array, ""]
    v_row: Annotated[VRow, Dims(d_out="d_in", d_out_2=1, d_out_3=1)]
    v_col: Annotated[VRow, Dims(d_out="d_ff", d_out_2=1, d_out_3=1)]
    v: Annotated[VRow, Dims(d_out=1, d_out_2="d_in", d_out_3="d_ff")]


@state
class TrainState:
    params: Annotated[Params, Dims(...)]
    opt_state: Annotated[tuple[FactoredState, EmptyState, EmptyState, EmptyState, EmptyState], Dims(...)]
