"""An nnx module with batch norm, dropout, a list of blocks and a variable in two places, and its optimizer."""

from typing import Any

import jax
import optax
from flax import nnx


class Block(nnx.Module):
    def __init__(self, d_model: int, rngs: nnx.Rngs) -> None:
        self.norm = nnx.BatchNorm(d_model, rngs=rngs)
        self.up = nnx.Linear(d_model, 4 * d_model, rngs=rngs)
        self.down = nnx.Linear(4 * d_model, d_model, use_bias=False, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.activation = nnx.gelu

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.dropout(self.down(self.activation(self.up(self.norm(x)))))


class Net(nnx.Module):
    def __init__(self, d_in: int, d_model: int, n_layers: int, classes: int, rngs: nnx.Rngs) -> None:
        self.encoder = nnx.Linear(d_in, d_model, rngs=rngs)
        self.blocks = nnx.List([Block(d_model, rngs) for _ in range(n_layers)])
        self.head = nnx.Sequential(nnx.Linear(d_model, 32, rngs=rngs), nnx.relu, nnx.Linear(32, classes, rngs=rngs))
        self.decoder = self.encoder
        self.steps = nnx.Variable(jax.numpy.int32(0))


def make_state(d_in: int = 5, d_model: int = 8, n_layers: int = 3, classes: int = 10) -> dict[str, Any]:
    model = Net(d_in, d_model, n_layers, classes, nnx.Rngs(0))
    tx = optax.chain(optax.clip(1.0), optax.adamw(1e-3))
    return {"model": model, "optimizer": nnx.Optimizer(model, tx, wrt=nnx.Param)}
