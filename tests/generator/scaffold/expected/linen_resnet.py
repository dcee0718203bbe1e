"""The state that `linen_resnet:make_state` makes, as `treaty scaffold` saw it: yours to edit."""

from typing import Annotated

from jax import Array
from jaxtyping import Float32, Int32, Key
from treaty.schema import Dims, Keys, Length, state
from treaty.schema.library.optax import EmptyState, Sgd, TraceState


@state
class Head:
    kernel: Float32[Array, "2*width classes"]
    bias: Float32[Array, "classes"]


@state
class BatchNorm:
    scale: Float32[Array, "d"]
    bias: Float32[Array, "d"]


@state
class Conv:
    kernel: Float32[Array, "k k d_in d_out"]


@state
class StageA:
    BatchNorms: Annotated[tuple[BatchNorm, ...], Keys("BatchNorm_{i}"), Length(2), Dims(...)]
    Convs: Annotated[tuple[Conv, ...], Keys("Conv_{i}"), Length(2), Dims(k=3, d_in="d", d_out="d")]


@state
class ParamsStageA:
    BatchNorms: Annotated[tuple[BatchNorm, ...], Keys("BatchNorm_{i}"), Length(2), Dims(d="2*width")]
    Conv_0: Annotated[Conv, Dims(k=3, d_in="width", d_out="2*width")]
    Conv_1: Annotated[Conv, Dims(k=3, d_in="2*width", d_out="2*width")]
    project: Annotated[Conv, Dims(k=1, d_in="width", d_out="2*width")]


@state
class Stem:
    kernel: Float32[Array, "3 3 3 width"]
    bias: Float32[Array, "width"]


@state
class Params:
    head: Annotated[Head, Dims(...)]
    stage_0_a: Annotated[StageA, Dims(d="width")]
    stage_0_b: Annotated[StageA, Dims(d="width")]
    stage_1_a: Annotated[ParamsStageA, Dims(...)]
    stage_1_b: Annotated[StageA, Dims(d="2*width")]
    stem: Annotated[Stem, Dims(...)]


@state
class BatchNormStats:
    mean: Float32[Array, "d"]
    var: Float32[Array, "d"]


@state
class BatchStatsStageA:
    BatchNorms: Annotated[tuple[BatchNormStats, ...], Keys("BatchNorm_{i}"), Length(2), Dims(...)]


@state
class BatchStats:
    stage_0_a: Annotated[BatchStatsStageA, Dims(d="width")]
    stage_0_b: Annotated[BatchStatsStageA, Dims(d="width")]
    stage_1_a: Annotated[BatchStatsStageA, Dims(d="2*width")]
    stage_1_b: Annotated[BatchStatsStageA, Dims(d="2*width")]


@state
class TrainState:
    # a Python int, which a jitted step makes an array of
    step: Int32[Array, ""]
    params: Annotated[Params, Dims(...)]
    batch_stats: Annotated[BatchStats, Dims(...)]
    dropout_rng: Key[Array, ""]
    opt_state: Annotated[tuple[EmptyState, Sgd[TraceState[Params], EmptyState]], Dims(...)]
