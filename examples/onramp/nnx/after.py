"""Train a residual network on a synthetic task, with flax nnx. Start it again, and it goes on.

python train.py run --steps 40
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from state import TrainState

from treaty.runtime import from_live, restore, save, update_live

EVERY = 5  # steps from one checkpoint to the next


class Block(nnx.Module):
    def __init__(self, d_model: int, rngs: nnx.Rngs) -> None:
        self.norm = nnx.BatchNorm(d_model, momentum=0.9, rngs=rngs)
        self.up = nnx.Linear(d_model, 4 * d_model, rngs=rngs)
        self.down = nnx.Linear(4 * d_model, d_model, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        hidden = nnx.gelu(self.up(self.norm(x)))
        return x + self.dropout(self.down(hidden))


class Network(nnx.Module):
    def __init__(self, d_in: int, d_model: int, n_layers: int, n_classes: int, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Linear(d_in, d_model, rngs=rngs)
        self.blocks = nnx.List([Block(d_model, rngs) for _ in range(n_layers)])
        self.head = nnx.Linear(d_model, n_classes, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def make_state(d_in: int = 8, d_model: int = 16, n_layers: int = 2, n_classes: int = 4) -> dict[str, nnx.Pytree]:
    model = Network(d_in, d_model, n_layers, n_classes, nnx.Rngs(0))
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, warmup_steps=10, decay_steps=100)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
    return {"model": model, "optimizer": nnx.Optimizer(model, tx, wrt=nnx.Param)}


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of four points in the plane of the first two numbers is nearest."""
    x = np.random.default_rng(step).standard_normal((64, 8), np.float32)
    corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], np.float32)
    return x, np.argmin(((x[:, None, :2] - corners) ** 2).sum(-1), axis=1)


@nnx.jit
def train_step(model: Network, optimizer: nnx.Optimizer, x: jax.Array, y: jax.Array) -> jax.Array:
    def loss_of(model: Network) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

    loss, grads = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, grads)
    return loss


def latest(run: Path) -> Path | None:
    steps = [path for path in run.glob("step-*") if "tmp" not in path.name]
    return max(steps, default=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    run = arguments.run.absolute()
    run.mkdir(exist_ok=True)

    state = make_state()
    found = latest(run)
    if found is not None:
        update_live(state, restore(found, from_live(TrainState, state)))
    begin = int(state["optimizer"].step.get_value())

    for step in range(begin + 1, arguments.steps + 1):
        x, y = batch(step)
        loss = train_step(state["model"], state["optimizer"], jnp.asarray(x), jnp.asarray(y))
        print(f"step {step} loss {loss:.4f}", flush=True)
        if step % EVERY == 0 or step == arguments.steps:
            save(run / f"step-{step:06}.msgpack", from_live(TrainState, state))


if __name__ == "__main__":
    main()
