"""The state that `equinox_model:make_state` makes, as `treaty scaffold` saw it: yours to edit."""

from typing import Annotated

from jax import Array
from jaxtyping import BFloat16, Float32, Int32
from treaty.schema import Dims, Length, field, state
from treaty.schema.library.optax import EmptyState, Lion


@state
class Linear:
    weight: Float32[Array, "d_out d_in"]


@state
class MultiheadAttention:
    query_proj: Annotated[Linear, Dims(d_out="d_model", d_in="d_model")]
    key_proj: Annotated[Linear, Dims(d_out="d_model", d_in="d_model")]
    value_proj: Annotated[Linear, Dims(d_out="d_model", d_in="d_model")]
    output_proj: Annotated[Linear, Dims(d_out="d_model", d_in="d_model")]


@state
class LayerNorm:
    weight: Float32[Array, "d_model"]
    bias: Float32[Array, "d_model"]


@state
class LinearWithBias:
    weight: Float32[Array, "d_out d_in"]
    bias: Float32[Array, "d_out"]


@state
class Block:
    attention: Annotated[MultiheadAttention, Dims(...)]
    norm_1: Annotated[LayerNorm, Dims(...)]
    norm_2: Annotated[LayerNorm, Dims(...)]
    up: Annotated[LinearWithBias, Dims(d_out="4*d_model", d_in="d_model")]
    down: Annotated[LinearWithBias, Dims(d_out="d_model", d_in="4*d_model")]


@state
class MLP:
    layers: tuple[
        Annotated[LinearWithBias, Dims(d_out="2*d_model", d_in="d_model")],
        Annotated[LinearWithBias, Dims(d_out="2*d_model", d_in="2*d_model")],
        Annotated[LinearWithBias, Dims(d_out="vocab", d_in="2*d_model")],
    ]


@state
class Transformer:
    embedding: Annotated[Linear, Dims(d_out="vocab", d_in="d_model")]
    blocks: Annotated[tuple[Block, ...], Length("n_layers"), Dims(...)]
    head: Annotated[MLP, Dims(...)]
    scale: BFloat16[Array, ""]


@state
class TrainState:
    model: Annotated[Transformer, Dims(...)] = field(key="0")
    opt_state: Annotated[Lion[Transformer, EmptyState], Dims(...)] = field(key="1")
    step: Int32[Array, ""] = field(key="2")
