"""A small decoder-only transformer over the bundled schema, and a training step whose bits do not depend on the devices.

Parameters and optimizer state are spread over the devices by the names of their dims. Sums are what other devices would
do in another order; so one device computes the gradient, from parameters that are gathered for it, and what is left, the
update, treats every number by itself. So 1, 2, 4 or 8 devices end with the same bits.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.sharding import AxisType, Mesh

from treaty.runtime import shardings
from treaty.schema.library.optax import AdamW, ScheduleState, from_optax, to_optax
from treaty.schema.library.transformer import Attention, Block, Mlp, Norm, Params, TrainState

DIMS: Final = {
    "vocab": 1024,
    "d_model": 256,
    "n_heads": 8,
    "n_kv_heads": 2,
    "d_head": 32,
    "d_ff": 1024,
    "n_layers": 1,
}
RULES: Final = {"vocab": "devices", "n_heads": "devices", "d_ff": "devices"}  # the other dims are replicated
BATCH: Final = 8
LENGTH: Final = 16
DROPOUT: Final = 0.1
OPTIMIZER: Final = optax.adamw(optax.cosine_decay_schedule(3e-3, 100))


def mesh_of(devices: int) -> Mesh:
    return jax.make_mesh((devices,), ("devices",), axis_types=(AxisType.Auto,))


def first_state(mesh: Mesh) -> TrainState:
    random = np.random.default_rng(0)
    d, f, h, kv, head = (DIMS[name] for name in ("d_model", "d_ff", "n_heads", "n_kv_heads", "d_head"))

    def weights(*shape: int, fan_in: int) -> Array:
        return jnp.asarray(random.standard_normal(shape, np.float32) / np.float32(math.sqrt(fan_in)))

    def block() -> Block:
        return Block(
            attention_norm=Norm(scale=jnp.ones(d)),
            attention=Attention(
                query=weights(d, h, head, fan_in=d),
                key=weights(d, kv, head, fan_in=d),
                value=weights(d, kv, head, fan_in=d),
                out=weights(h, head, d, fan_in=h * head),
            ),
            mlp_norm=Norm(scale=jnp.ones(d)),
            mlp=Mlp(gate=weights(d, f, fan_in=d), up=weights(d, f, fan_in=d), down=weights(f, d, fan_in=f)),
        )

    embedding = weights(DIMS["vocab"], d, fan_in=d)
    blocks = tuple(block() for _ in range(DIMS["n_layers"]))
    params = Params(embedding=embedding, blocks=blocks, final_norm=Norm(scale=jnp.ones(d)))
    opt = from_optax(OPTIMIZER.init(params), AdamW[Params, ScheduleState])
    state = TrainState(step=jnp.int32(0), params=params, opt=opt, rng=jax.random.key(0))
    placed: TrainState = jax.device_put(state, shardings(TrainState, mesh, RULES, DIMS))
    return placed


def make_step(mesh: Mesh) -> Callable[[TrainState], tuple[TrainState, Array]]:
    """A step: the state before, which is donated, to the state after and the loss."""
    where = shardings(TrainState, mesh, RULES, DIMS)
    gradient = jax.jit(jax.value_and_grad(_loss))
    update: Any = jax.jit(_update, donate_argnums=0, out_shardings=where)

    def step(state: TrainState) -> tuple[TrainState, Array]:
        params, rng = jax.device_put((state.params, state.rng), jax.devices()[0])
        loss, grads = gradient(params, examples_of(int(state.step)), rng)
        return update(state, jax.device_put(grads, where.params)), loss

    return step


def examples_of(step: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The data set: sequences that count on from some number, modulo 64. The step says which are next."""
    start = np.random.default_rng(step).integers(0, 64, (BATCH, 1), np.int32)
    return (start + np.arange(LENGTH + 1, dtype=np.int32)) % 64


def _update(state: TrainState, grads: Params) -> TrainState:
    updates, opt = OPTIMIZER.update(grads, to_optax(state.opt), state.params)
    return TrainState(
        step=state.step + 1,
        params=optax.apply_updates(state.params, updates),
        opt=from_optax(opt, AdamW[Params, ScheduleState]),
        rng=jax.random.fold_in(state.rng, state.step),
    )


def _loss(params: Params, tokens: Array, rng: Array) -> Array:
    x = params.embedding[tokens[:, :-1]]
    for block, key in zip(params.blocks, jax.random.split(rng, len(params.blocks)), strict=True):
        x += _attend(block.attention, _normed(block.attention_norm, x))
        x += _dropout(_mlp(block.mlp, _normed(block.mlp_norm, x)), key)
    logits = _normed(params.final_norm, x) @ params.embedding.T
    losses: Array = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
    return losses.mean()


def _attend(weights: Attention, x: Array) -> Array:
    query = _rotated(jnp.einsum("btd,dnh->btnh", x, weights.query))
    key = _rotated(jnp.einsum("btd,dnh->btnh", x, weights.key))
    value = jnp.einsum("btd,dnh->btnh", x, weights.value)
    mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
    return jnp.einsum("btnh,nhd->btd", mixed, weights.out)


def _mlp(weights: Mlp, x: Array) -> Array:
    return (jax.nn.silu(x @ weights.gate) * (x @ weights.up)) @ weights.down


def _normed(norm: Norm, x: Array) -> Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * norm.scale


def _rotated(x: Array) -> Array:
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None, None] * 10000.0 ** (-jnp.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), a * jnp.sin(angles) + b * jnp.cos(angles)], -1)


def _dropout(x: Array, key: Array) -> Array:
    return jnp.where(jax.random.bernoulli(key, 1 - DROPOUT, x.shape), x / (1 - DROPOUT), 0.0)
