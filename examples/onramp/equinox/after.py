"""Train a recurrent network to add up, with equinox. Start it again, and it goes on.

python train.py run --steps 40
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from state import Checkpoint

from treaty.runtime import from_live, restore, save, to_live

EVERY = 5  # steps from one checkpoint to the next
LENGTH = 8


class Model(eqx.Module):
    cell: eqx.nn.GRUCell
    mlp: eqx.nn.MLP

    def __init__(self, d_in: int, d_model: int, d_ff: int, key: jax.Array) -> None:
        one, other = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(d_in, d_model, key=one)
        self.mlp = eqx.nn.MLP(d_model, "scalar", d_ff, depth=1, activation=jax.nn.gelu, key=other)

    def __call__(self, x: jax.Array) -> jax.Array:
        hidden = jnp.zeros(self.cell.hidden_size)
        hidden, _ = jax.lax.scan(lambda h, one: (self.cell(one, h), None), hidden, x)
        return self.mlp(hidden)


class TrainState(NamedTuple):
    step: jax.Array
    model: Model
    opt_state: optax.OptState
    key: jax.Array


OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.exponential_decay(1e-2, 50, 0.5)))


def make_state(d_in: int = 2, d_model: int = 16, d_ff: int = 24) -> TrainState:
    model = Model(d_in, d_model, d_ff, jax.random.key(0))
    opt_state = OPTIMIZER.init(eqx.filter(model, eqx.is_array))
    return TrainState(step=jnp.int32(0), model=model, opt_state=opt_state, key=jax.random.PRNGKey(1))


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    """The sum of the numbers that are marked."""
    random = np.random.default_rng(step)
    numbers = random.standard_normal((32, LENGTH), np.float32)
    marks = random.integers(0, 2, (32, LENGTH)).astype(np.float32)
    return np.stack([numbers, marks], -1), (numbers * marks).sum(1)


@eqx.filter_jit
def train_step(state: TrainState, x: jax.Array, y: jax.Array) -> tuple[TrainState, jax.Array]:
    key, noise = jax.random.split(state.key)
    x = x + 0.01 * jax.random.normal(noise, x.shape)

    @eqx.filter_value_and_grad
    def loss_of(model: Model) -> jax.Array:
        return jnp.mean((jax.vmap(model)(x) - y) ** 2)

    loss, grads = loss_of(state.model)
    updates, opt_state = OPTIMIZER.update(grads, state.opt_state)
    return TrainState(state.step + 1, eqx.apply_updates(state.model, updates), opt_state, key), loss


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
        state = to_live(restore(found, from_live(Checkpoint, state)), state)

    for step in range(int(state.step) + 1, arguments.steps + 1):
        state, loss = train_step(state, *map(jnp.asarray, batch(step)))
        print(f"step {step} loss {loss:.4f}", flush=True)
        if step % EVERY == 0 or step == arguments.steps:
            save(run / f"step-{step:06}.msgpack", from_live(Checkpoint, state))


if __name__ == "__main__":
    main()
