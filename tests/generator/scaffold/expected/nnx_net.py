"""The state that `nnx_net:make_state` makes, as `treaty scaffold` saw it: yours to edit."""

from typing import Annotated

from jax import Array
from jaxtyping import Float32, Int32, Key, UInt32
from treaty.schema import Dims, Length, field, state
from treaty.schema.library.optax import AdamW, EmptyState


@state
class LinearWithoutBias:
    kernel: Float32[Array, "4*d_model d_model"]


@state
class RngStream:
    count: UInt32[Array, ""]
    key: Key[Array, ""]


@state
class Dropout:
    rngs: RngStream


@state
class BatchNorm:
    scale: Float32[Array, "d_model"]
    mean: Float32[Array, "d_model"]
    var: Float32[Array, "d_model"]
    bias: Float32[Array, "d_model"]


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Block:
    down: Annotated[LinearWithoutBias, Dims(...)]
    dropout: Dropout
    norm: Annotated[BatchNorm, Dims(...)]
    up: Annotated[Linear, Dims(d_in="d_model", d_out="4*d_model")]


@state
class Layers:
    item_0: Annotated[Linear, Dims(d_in="d_model", d_out=32)] = field(key="0")
    item_2: Annotated[Linear, Dims(d_in=32, d_out="classes")] = field(key="2")


@state
class Sequential:
    layers: Annotated[Layers, Dims(...)]


@state
class Net:
    # encoder is state['model'].decoder, and declared there
    blocks: Annotated[tuple[Block, ...], Length("n_layers"), Dims(...)]
    decoder: Annotated[Linear, Dims("d_in", d_out="d_model")]
    head: Annotated[Sequential, Dims(...)]
    steps: Int32[Array, ""]


@state
class Norm:
    scale: Float32[Array, "d_model"]
    bias: Float32[Array, "d_model"]


@state
class ParamsBlock:
    down: Annotated[LinearWithoutBias, Dims(...)]
    norm: Annotated[Norm, Dims(...)]
    up: Annotated[Linear, Dims(d_in="d_model", d_out="4*d_model")]


@state
class Params:
    blocks: Annotated[tuple[ParamsBlock, ...], Length("n_layers"), Dims(...)]
    decoder: Annotated[Linear, Dims("d_in", d_out="d_model")]
    head: Annotated[Sequential, Dims(...)]


@state
class Optimizer:
    step: UInt32[Array, ""]
    opt_state: Annotated[tuple[EmptyState, AdamW[Params, EmptyState]], Dims(...)]


@state
class TrainState:
    model: Annotated[Net, Dims(...)]
    optimizer: Annotated[Optimizer, Dims(...)]
