"""A model's params, and the optimizers that people train it with, each a field of one state."""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import BFloat16, Float32
from optax import contrib

from treaty.schema import Dims, FromInit, Length, field, state


@state
class Affine:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"] = field(key="b")


@state
class Layer:
    up: Annotated[Affine, Dims(d_in="d_model", d_out="d_ff")]
    down: Annotated[Affine, Dims(d_in="d_ff", d_out="d_model")]
    scale: Float32[Array, "d_model"]
    gate: Float32[Array, "d_model d_ff=4*d_model"]


@state
class Model:
    embed: BFloat16[Array, "vocab d_model"]
    layers: Annotated[tuple[Layer, ...], Length("n_layers"), Dims("d_model")]
    kind: str = field(default="small", static=True)


def affine(d_in: int, d_out: int) -> Affine:
    return Affine(kernel=jnp.full((d_in, d_out), 0.5), bias=jnp.zeros(d_out))


def model(vocab: int = 11, d_model: int = 4, n_layers: int = 2) -> Model:
    layer = Layer(
        up=affine(d_model, 4 * d_model),
        down=affine(4 * d_model, d_model),
        scale=jnp.ones(d_model),
        gate=jnp.ones((d_model, 4 * d_model)),
    )
    return Model(embed=jnp.ones((vocab, d_model), jnp.bfloat16), layers=(layer,) * n_layers)


def schedule(step: Any) -> Any:
    return 1e-3 / (1 + step)


def is_matrix(params: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)


def labels(params: Any) -> Any:
    """By the names of the params, which have to be there when init is asked."""
    return jax.tree.map_with_path(lambda path, _: "slow" if "scale" in jax.tree_util.keystr(path) else "fast", params)


def adamw() -> Any:
    return optax.adamw(1e-3)


def clipped() -> Any:
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, mu_dtype=jnp.bfloat16))


def momentum() -> Any:
    return optax.sgd(schedule, momentum=0.9)


def averaged() -> Any:
    return optax.chain(optax.adam(1e-3), optax.ema(0.99))


def accumulated() -> Any:
    return optax.MultiSteps(optax.adam(1e-3), 2, should_skip_update_fn=optax.skip_not_finite)


def masked() -> Any:
    return optax.masked(optax.adam(1e-3), is_matrix)


def decayed() -> Any:
    return optax.adamw(1e-3, mask=is_matrix)


def groups() -> Any:
    return optax.multi_transform({"fast": optax.adamw(1e-3), "slow": optax.sgd(1e-2, momentum=0.9)}, labels)


def injected() -> Any:
    return optax.inject_hyperparams(optax.adamw)(learning_rate=schedule, b1=0.8)


def schedule_free() -> Any:
    return contrib.schedule_free_adamw(1e-3)


def lion() -> Any:
    return optax.lion(1e-3)


def adagrad() -> Any:
    return optax.adagrad(1e-2)


def noisy() -> Any:
    return optax.chain(optax.add_noise(0.1, 0.5, jax.random.key(0)), optax.sgd(1e-2))


def named() -> Any:
    return optax.named_chain(("second", optax.clip(1.0)), ("first", optax.adam(1e-3)))


def finite() -> Any:
    return optax.apply_if_finite(optax.rmsprop(1e-3), 3)


def adafactor() -> Any:
    return optax.adafactor(schedule, momentum=0.9)


def small_adafactor() -> Any:
    return optax.chain(optax.masked(optax.adafactor(1e-2, min_dim_size_to_factor=8), is_matrix))


FACTORIES = {
    one.__name__: one
    for one in (
        *(adamw, clipped, momentum, averaged, accumulated, masked, decayed, groups, injected, schedule_free),
        *(lion, adagrad, noisy, named, finite, adafactor, small_adafactor),
    )
}


@state
class Training:
    """One state of every optimizer."""

    model: Annotated[Model, Dims(...)]
    adamw: Annotated[optax.OptState, FromInit(adamw, of="model")]
    clipped: Annotated[optax.OptState, FromInit(clipped, of="model")]
    momentum: Annotated[optax.OptState, FromInit(momentum, of="model")]
    averaged: Annotated[optax.OptState, FromInit(averaged, of="model")]
    accumulated: Annotated[optax.OptState, FromInit(accumulated, of="model")]
    masked: Annotated[optax.OptState, FromInit(masked, of="model")]
    decayed: Annotated[optax.OptState, FromInit(decayed, of="model")]
    groups: Annotated[optax.OptState, FromInit(groups, of="model")]
    injected: Annotated[optax.OptState, FromInit(injected, of="model")]
    schedule_free: Annotated[optax.OptState, FromInit(schedule_free, of="model")]
    lion: Annotated[optax.OptState, FromInit(lion, of="model")]
    adagrad: Annotated[optax.OptState, FromInit(adagrad, of="model")]
    noisy: Annotated[optax.OptState, FromInit(noisy, of="model")]
    named: Annotated[optax.OptState, FromInit(named, of="model")]
    finite: Annotated[optax.OptState, FromInit(finite, of="model")]
    adafactor: Annotated[optax.OptState, FromInit(adafactor, of="model")]
    small_adafactor: Annotated[optax.OptState, FromInit(small_adafactor, of="model")]


@state
class Adafactored:
    model: Annotated[Model, Dims(...)]
    opt: Annotated[optax.OptState, FromInit(adafactor, of="model")]
