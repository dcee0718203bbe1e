"""A transformer of equinox, with static fields, functions, dropout and layers that are repeated."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Block(eqx.Module):
    attention: eqx.nn.MultiheadAttention
    norm_1: eqx.nn.LayerNorm
    norm_2: eqx.nn.LayerNorm
    up: eqx.nn.Linear
    down: eqx.nn.Linear
    dropout: eqx.nn.Dropout
    activation: Callable[[jax.Array], jax.Array]
    d_model: int = eqx.field(static=True)

    def __init__(self, d_model: int, n_heads: int, key: jax.Array) -> None:
        keys = jax.random.split(key, 3)
        self.attention = eqx.nn.MultiheadAttention(n_heads, d_model, key=keys[0])
        self.norm_1 = eqx.nn.LayerNorm(d_model)
        self.norm_2 = eqx.nn.LayerNorm(d_model)
        self.up = eqx.nn.Linear(d_model, 4 * d_model, key=keys[1])
        self.down = eqx.nn.Linear(4 * d_model, d_model, key=keys[2])
        self.dropout = eqx.nn.Dropout(0.1)
        self.activation = jax.nn.gelu
        self.d_model = d_model


class Transformer(eqx.Module):
    embedding: eqx.nn.Embedding
    blocks: list[Block]
    head: eqx.nn.MLP
    scale: jax.Array
    name: str = eqx.field(static=True)

    def __init__(self, vocab: int, d_model: int, n_heads: int, n_layers: int, key: jax.Array) -> None:
        keys = jax.random.split(key, n_layers + 2)
        self.embedding = eqx.nn.Embedding(vocab, d_model, key=keys[0])
        self.blocks = [Block(d_model, n_heads, key) for key in keys[2:]]
        self.head = eqx.nn.MLP(d_model, vocab, 2 * d_model, 2, key=keys[1])
        self.scale = jnp.ones((), jnp.bfloat16)
        self.name = "transformer"


def make_state(
    vocab: int = 32, d_model: int = 16, n_heads: int = 2, n_layers: int = 3
) -> tuple[Transformer, optax.OptState, jax.Array]:
    model = Transformer(vocab, d_model, n_heads, n_layers, jax.random.key(0))
    opt_state = optax.lion(1e-3).init(eqx.filter(model, eqx.is_inexact_array))
    return model, opt_state, jnp.int32(0)
