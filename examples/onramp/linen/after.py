"""Train a small transformer to count on, with flax linen. Start it again, and it goes on.

python train.py run --steps 40
"""

import argparse
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from state import Checkpoint

from treaty.runtime import from_live, restore, save, to_live

EVERY = 5  # steps from one checkpoint to the next
VOCAB = 32


class Block(nn.Module):
    n_heads: int
    d_ff: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        mask = nn.make_causal_mask(x[..., 0])
        x = x + nn.MultiHeadDotProductAttention(self.n_heads, name="attention")(nn.LayerNorm()(x), mask=mask)
        hidden = nn.gelu(nn.Dense(self.d_ff, name="up")(nn.LayerNorm()(x)))
        return x + nn.Dense(x.shape[-1], name="down")(hidden)


class Transformer(nn.Module):
    vocab: int
    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        embed = nn.Embed(self.vocab, self.d_model, name="embed")
        x = embed(tokens)
        for i in range(self.n_layers):
            x = Block(self.n_heads, self.d_ff, name=f"block_{i}")(x)
        return embed.attend(nn.LayerNorm(name="norm")(x))


def make_state(
    vocab: int = VOCAB, d_model: int = 16, n_layers: int = 3, n_heads: int = 2, d_ff: int = 48
) -> TrainState:
    model = Transformer(vocab, d_model, n_layers, n_heads, d_ff)
    params = model.init(jax.random.key(0), jnp.zeros((1, 8), jnp.int32))["params"]
    tx = optax.adamw(optax.cosine_decay_schedule(1e-2, decay_steps=200))
    return TrainState.create(apply_fn=model.apply, params=params, tx=tx)


def batch(step: int) -> np.ndarray:
    start = np.random.default_rng(step).integers(0, VOCAB, (16, 1), np.int32)
    return (start + np.arange(9, dtype=np.int32)) % VOCAB


@jax.jit
def train_step(state: TrainState, tokens: jax.Array) -> tuple[TrainState, jax.Array]:
    def loss_of(params: dict) -> jax.Array:
        logits = state.apply_fn({"params": params}, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    loss, grads = jax.value_and_grad(loss_of)(state.params)
    return state.apply_gradients(grads=grads), loss


def latest(run: Path) -> Path | None:
    return max(run.glob("step-*"), default=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    run = arguments.run
    run.mkdir(exist_ok=True)

    state = make_state()
    found = latest(run)
    if found is not None:
        state = to_live(restore(found, from_live(Checkpoint, state)), state)

    for step in range(int(state.step) + 1, arguments.steps + 1):
        state, loss = train_step(state, jnp.asarray(batch(step)))
        print(f"step {step} loss {loss:.4f}", flush=True)
        if step % EVERY == 0 or step == arguments.steps:
            save(run / f"step-{step:06}.msgpack", from_live(Checkpoint, state))


if __name__ == "__main__":
    main()
