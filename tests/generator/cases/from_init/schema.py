"""Optimizer states that init says: of the params as they are, of some of them, and of all in another dtype."""

from typing import Annotated, Any

import jax
import optax
from jax import Array
from jaxtyping import BFloat16, Int32

from treaty.schema import Dims, FromInit, Length, state

__treaty__ = "tests.generator.cases.from_init.expected"


@state
class Linear:
    kernel: BFloat16[Array, "d_in d_out"]
    bias: BFloat16[Array, "d_out"]


@state
class Params:
    head: Annotated[Linear, Dims(d_in="d_model", d_out="vocab")]
    blocks: Annotated[tuple[Linear, ...], Length("n_layers"), Dims(d_in="d_model", d_out="d_model")]


def is_matrix(params: Params) -> Any:
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)


def make_optimizer() -> optax.GradientTransformation:
    decayed = optax.masked(optax.trace(0.9), is_matrix)
    return optax.named_chain(("clip", optax.clip(1.0)), ("adam", optax.scale_by_adam()), ("decayed", decayed))


def make_accumulating() -> optax.MultiSteps:
    return optax.MultiSteps(optax.sgd(1e-3), 4)


def make_factored() -> optax.GradientTransformation:
    return optax.scale_by_factored_rms()


@state
class TrainState:
    step: Int32[Array, ""]
    opt: Annotated[optax.OptState, FromInit(make_optimizer, of="params")]
    params: Annotated[Params, Dims(...)]
    accumulated: Annotated[optax.MultiStepsState, FromInit(make_accumulating, of="params.head")]
    factored: Annotated[optax.OptState, FromInit(make_factored, of="params")]
