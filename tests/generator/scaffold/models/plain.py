"""A language model of plain dicts, as people write it without a framework."""

from typing import Any

import jax
import jax.numpy as jnp
import optax


def dense(key: jax.Array, d_in: int, d_out: int) -> dict[str, jax.Array]:
    return {"w": jax.random.normal(key, (d_in, d_out)) / d_in**0.5, "b": jnp.zeros(d_out)}


def norm(d: int) -> dict[str, jax.Array]:
    return {"scale": jnp.ones(d), "bias": jnp.zeros(d)}


def attention(key: jax.Array, d_model: int, n_heads: int, d_head: int) -> dict[str, Any]:
    keys = jax.random.split(key, 2)
    return {
        "qkv": jax.random.normal(keys[0], (3, d_model, n_heads, d_head)),
        "out": jax.random.normal(keys[1], (n_heads, d_head, d_model)),
    }


def block(key: jax.Array, d_model: int, n_heads: int, d_head: int) -> dict[str, Any]:
    keys = jax.random.split(key, 3)
    return {
        "attention": attention(keys[0], d_model, n_heads, d_head),
        "norm_1": norm(d_model),
        "norm_2": norm(d_model),
        "mlp": {"up": dense(keys[1], d_model, 4 * d_model), "down": dense(keys[2], 4 * d_model, d_model)},
    }


def init(key: jax.Array, vocab: int, d_model: int, n_heads: int, d_head: int, n_layers: int) -> dict[str, Any]:
    keys = jax.random.split(key, n_layers + 2)
    return {
        "embed": jax.random.normal(keys[0], (vocab, d_model)).astype(jnp.bfloat16),
        "blocks": [block(key, d_model, n_heads, d_head) for key in keys[2:]],
        "norm": norm(d_model),
        "head": dense(keys[1], d_model, vocab),
    }


def make_state(
    vocab: int = 32, d_model: int = 16, n_heads: int = 2, d_head: int = 8, n_layers: int = 3
) -> dict[str, Any]:
    params = init(jax.random.key(0), vocab, d_model, n_heads, d_head, n_layers)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(1e-3, 100)))
    return {
        "step": 7,
        "params": params,
        "opt_state": tx.init(params),
        "ema": jax.tree.map(jnp.zeros_like, params),
        "best_loss": 0.1,
        "rng": jax.random.key(1),
    }
