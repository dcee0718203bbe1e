"""The state that `linen_transformer:make_state` makes, as `treaty scaffold` saw it: yours to edit."""

from typing import Annotated

from jax import Array
from jaxtyping import Float32, Int32
from treaty.schema import Dims, Keys, Length, state
from treaty.schema.library.optax import AdamW, EmptyState


@state
class Norm:
    scale: Float32[Array, "d_model"]
    bias: Float32[Array, "d_model"]


@state
class Projection:
    kernel: Float32[Array, "d_0 d_1 d_2"]


@state
class Attention:
    out: Annotated[Projection, Dims(d_0="n_heads", d_1="d_model//n_heads", d_2="d_model")]
    query: Annotated[Projection, Dims(d_0="d_model", d_1="n_heads", d_2="d_model//n_heads")]
    value: Annotated[Projection, Dims(d_0="d_model", d_1="n_heads", d_2="d_model//n_heads")]
    key: Annotated[Projection, Dims(d_0="d_model", d_1="n_heads", d_2="d_model//n_heads")]


@state
class Dense:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Mlp:
    Dense_0: Annotated[Dense, Dims(d_in="d_model", d_out="d_ff")]
    Dense_1: Annotated[Dense, Dims(d_in="d_ff", d_out="d_model")]


@state
class Block:
    LayerNorms: Annotated[tuple[Norm, ...], Keys("LayerNorm_{i}"), Length(2), Dims(...)]
    attention: Annotated[Attention, Dims(...)]
    mlp: Annotated[Mlp, Dims(...)]


@state
class Embed:
    embedding: Float32[Array, "vocab d_model"]


@state
class Params:
    blocks: Annotated[tuple[Block, ...], Keys("block_{i}"), Length("n_layers"), Dims(...)]
    embed: Annotated[Embed, Dims(...)]
    head: Annotated[Dense, Dims(d_in="d_model", d_out="vocab")]
    norm: Annotated[Norm, Dims(...)]
    positions: Float32[Array, "max_len d_model"]


@state
class TrainState:
    # a Python int, which a jitted step makes an array of
    step: Int32[Array, ""]
    params: Annotated[Params, Dims(...)]
    opt_state: Annotated[AdamW[Params, EmptyState], Dims(...)]
