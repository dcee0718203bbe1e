"""The state that `haiku_like:make_state` makes, as `treaty scaffold` saw it: yours to edit."""

from typing import Annotated

from jax import Array
from jaxtyping import Float32, Int32, UInt32
from treaty.schema import Dims, field, state
from treaty.schema.library.optax import ScheduleState, Sgd, TraceState


@state
class Linear:
    # an axis that no expression of the sizes gives has a name of its own
    w: Float32[Array, "d_in d_out"]
    b: Float32[Array, "d_out"]


@state
class BatchNorm:
    scale: Float32[Array, "1 1 1 width"]
    offset: Float32[Array, "1 1 1 width"]


@state
class Conv2D:
    w: Float32[Array, "3 3 1 width"]
    b: Float32[Array, "width"]


@state
class Params:
    net_mlp_linear_0: Annotated[Linear, Dims("d_in", d_out="2*width")] = field(key="net/mlp/~/linear_0")
    net_mlp_linear_1: Annotated[Linear, Dims(d_in="2*width", d_out="2*width")] = field(key="net/mlp/~/linear_1")
    net_mlp_linear_2: Annotated[Linear, Dims(d_in="2*width", d_out="classes")] = field(key="net/mlp/~/linear_2")
    net_batch_norm: Annotated[BatchNorm, Dims(...)] = field(key="net/~/batch_norm")
    net_conv2_d: Annotated[Conv2D, Dims(...)] = field(key="net/~/conv2_d")


@state
class MeanEma:
    average: Float32[Array, "1 1 1 width"]
    counter: Int32[Array, ""]
    hidden: Float32[Array, "1 1 1 width"]


@state
class ModelState:
    net_batch_norm_mean_ema: Annotated[MeanEma, Dims(...)] = field(key="net/~/batch_norm/~/mean_ema")
    net_batch_norm_var_ema: Annotated[MeanEma, Dims(...)] = field(key="net/~/batch_norm/~/var_ema")


@state
class TrainState:
    params: Annotated[Params, Dims(...)] = field(key="0")
    model_state: Annotated[ModelState, Dims(...)] = field(key="1")
    opt_state: Annotated[Sgd[TraceState[Params], ScheduleState], Dims(...)] = field(key="2")
    step: Int32[Array, ""] = field(key="3")
    rng: UInt32[Array, "2"] = field(key="4")
