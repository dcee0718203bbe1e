"""A small model: what most fixtures restore."""

from typing import Annotated

from jax import Array
from jaxtyping import BFloat16, Float32, Int32, Key

from treaty.schema import Dims, Length, field, state


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Block:
    up: Annotated[Linear, Dims(d_in="d_model", d_out="4*d_model")]
    down: Annotated[Linear, Dims(d_in="4*d_model", d_out="d_model")]


@state
class TrainState:
    step: Int32[Array, ""]
    embed: BFloat16[Array, "vocab d_model"]
    blocks: Annotated[tuple[Block, ...], Length("n_layers"), Dims(...)]
    rng: Key[Array, ""]
    lr: float = field(default=1e-3)
    note: str = field(static=True)
