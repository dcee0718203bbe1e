"""The state that `plain:make_state` makes, as `treaty scaffold` saw it: yours to edit."""

from typing import Annotated

from jax import Array
from jaxtyping import BFloat16, Float32, Int32, Key
from treaty.schema import Dims, Length, state
from treaty.schema.library.optax import AdamW, EmptyState, ScheduleState


@state
class Attention:
    out: Float32[Array, "n_heads d_head d_model"]
    qkv: Float32[Array, "3 d_model n_heads d_head"]


@state
class Linear:
    w: Float32[Array, "d_in d_out"]
    b: Float32[Array, "d_out"]


@state
class Mlp:
    down: Annotated[Linear, Dims(d_in="4*d_model", d_out="d_model")]
    up: Annotated[Linear, Dims(d_in="d_model", d_out="4*d_model")]


@state
class Norm:
    scale: Float32[Array, "d_model"]
    bias: Float32[Array, "d_model"]


@state
class Block:
    attention: Annotated[Attention, Dims(...)]
    mlp: Annotated[Mlp, Dims(...)]
    norm_1: Annotated[Norm, Dims(...)]
    norm_2: Annotated[Norm, Dims(...)]


@state
class Params:
    blocks: Annotated[tuple[Block, ...], Length("n_layers"), Dims(...)]
    embed: BFloat16[Array, "vocab d_model"]
    head: Annotated[Linear, Dims(d_in="d_model", d_out="vocab")]
    norm: Annotated[Norm, Dims(...)]


@state
class TrainState:
    # a Python int, which a jitted step makes an array of
    step: Int32[Array, ""]
    params: Annotated[Params, Dims(...)]
    # a Python float; where a jitted step makes an array of it, write Float32[Array, ""]
    best_loss: float
    ema: Annotated[Params, Dims(...)]
    opt_state: Annotated[tuple[EmptyState, AdamW[Params, ScheduleState]], Dims(...)]
    rng: Key[Array, ""]
