"""Train a small language model on letters, with plain dicts and optax. Start it again, and it goes on.

python train.py run --steps 40
"""

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization

EVERY = 5  # steps from one checkpoint to the next
CONTEXT = 4
TEXT = "the quick brown fox jumps over the lazy dog and the lazy dog sleeps on while the quick brown fox runs away "
LETTERS = sorted(set(TEXT))
TOKENS = np.array([LETTERS.index(letter) for letter in TEXT], np.int32)
OPTIMIZER = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.adamw(optax.cosine_decay_schedule(2e-2, decay_steps=200), weight_decay=1e-3),
)


def make_params(vocab: int, d_embed: int, d_model: int, n_layers: int) -> dict[str, Any]:
    keys = iter(jax.random.split(jax.random.key(0), 2 * n_layers + 3))

    def dense(d_in: int, d_out: int) -> dict[str, jax.Array]:
        return {"w": jax.random.normal(next(keys), (d_in, d_out)) / d_in**0.5, "b": jnp.zeros(d_out)}

    return {
        "embed": jax.random.normal(next(keys), (vocab, d_embed)),
        "inp": dense(CONTEXT * d_embed, d_model),
        "layers": [{"up": dense(d_model, 2 * d_model), "down": dense(2 * d_model, d_model)} for _ in range(n_layers)],
        "out": dense(d_model, vocab),
    }


def make_state(vocab: int = len(LETTERS), d_embed: int = 6, d_model: int = 20, n_layers: int = 2) -> dict[str, Any]:
    params = make_params(vocab, d_embed, d_model, n_layers)
    return {
        "step": jnp.int32(0),
        "params": params,
        "ema": jax.tree.map(jnp.copy, params),
        "opt": OPTIMIZER.init(params),
        "key": jax.random.PRNGKey(1),
    }


def forward(params: dict[str, Any], tokens: jax.Array) -> jax.Array:
    def dense(layer: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        return x @ layer["w"] + layer["b"]

    x = jnp.tanh(dense(params["inp"], params["embed"][tokens].reshape(len(tokens), -1)))
    for layer in params["layers"]:
        x = x + dense(layer["down"], jax.nn.gelu(dense(layer["up"], x)))
    return dense(params["out"], x)


@jax.jit
def train_step(state: dict[str, Any]) -> tuple[dict[str, Any], jax.Array]:
    key, draw = jax.random.split(state["key"])
    start = jax.random.randint(draw, (64,), 0, len(TOKENS) - CONTEXT)
    context = jnp.asarray(TOKENS)[start[:, None] + jnp.arange(CONTEXT)]
    target = jnp.asarray(TOKENS)[start + CONTEXT]

    def loss_of(params: dict[str, Any]) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(forward(params, context), target).mean()

    loss, grads = jax.value_and_grad(loss_of)(state["params"])
    updates, opt = OPTIMIZER.update(grads, state["opt"], state["params"])
    params = optax.apply_updates(state["params"], updates)
    ema = optax.incremental_update(params, state["ema"], 0.1)
    return {"step": state["step"] + 1, "params": params, "ema": ema, "opt": opt, "key": key}, loss


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
        state = serialization.from_bytes(state, found.read_bytes())

    for step in range(int(state["step"]) + 1, arguments.steps + 1):
        state, loss = train_step(state)
        print(f"step {step} loss {loss:.4f}", flush=True)
        if step % EVERY == 0 or step == arguments.steps:
            (run / f"step-{step:06}.msgpack").write_bytes(serialization.to_bytes(state))


if __name__ == "__main__":
    main()
