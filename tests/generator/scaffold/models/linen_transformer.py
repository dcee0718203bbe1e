"""A transformer of linen with the train state of Flax."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState


class Mlp(nn.Module):
    d_ff: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        d_model = x.shape[-1]
        x = nn.gelu(nn.Dense(self.d_ff)(x))
        return nn.Dense(d_model)(x)


class Block(nn.Module):
    n_heads: int
    d_ff: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        y = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(self.n_heads, use_bias=False, name="attention")(y, y)
        return x + Mlp(self.d_ff, name="mlp")(nn.LayerNorm()(x))


class Transformer(nn.Module):
    vocab: int
    d_model: int
    n_heads: int
    d_ff: int
    n_layers: int
    max_len: int

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocab, self.d_model, name="embed")(tokens)
        x = x + self.param("positions", nn.initializers.normal(), (self.max_len, self.d_model))[: x.shape[1]]
        for number in range(self.n_layers):
            x = Block(self.n_heads, self.d_ff, name=f"block_{number}")(x)
        return nn.Dense(self.vocab, name="head")(nn.LayerNorm(name="norm")(x))


def make_state(
    vocab: int = 32,
    d_model: int = 16,
    n_heads: int = 2,
    d_ff: int = 64,
    n_layers: int = 4,
    max_len: int = 24,
    learning_rate: float = 1e-3,
) -> Any:
    model = Transformer(vocab, d_model, n_heads, d_ff, n_layers, max_len)
    params = model.init(jax.random.key(0), jnp.zeros((1, max_len), jnp.int32))["params"]
    create: Any = TrainState.create  # which has no types
    return create(apply_fn=model.apply, params=params, tx=optax.adamw(learning_rate))
