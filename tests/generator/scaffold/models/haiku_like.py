"""Params and state as haiku has them: dicts of two levels, with the names of modules."""

from typing import Any

import jax
import jax.numpy as jnp
import optax


def linear(key: jax.Array, d_in: int, d_out: int) -> dict[str, jax.Array]:
    return {"w": jax.random.normal(key, (d_in, d_out)), "b": jnp.zeros(d_out)}


def init(key: jax.Array, image: int, width: int, classes: int) -> tuple[dict[str, Any], dict[str, Any]]:
    keys = jax.random.split(key, 4)
    params = {
        "net/~/conv2_d": {"w": jax.random.normal(keys[0], (3, 3, 1, width)), "b": jnp.zeros(width)},
        "net/~/batch_norm": {"scale": jnp.ones((1, 1, 1, width)), "offset": jnp.zeros((1, 1, 1, width))},
        "net/mlp/~/linear_0": linear(keys[1], image * image * width, 2 * width),
        "net/mlp/~/linear_1": linear(keys[2], 2 * width, 2 * width),
        "net/mlp/~/linear_2": linear(keys[3], 2 * width, classes),
    }
    averages = {"hidden": jnp.zeros((1, 1, 1, width)), "average": jnp.zeros((1, 1, 1, width)), "counter": jnp.int32(0)}
    state = {"net/~/batch_norm/~/mean_ema": averages, "net/~/batch_norm/~/var_ema": averages}
    return params, state


def make_state(image: int = 8, width: int = 6, classes: int = 10) -> tuple[Any, ...]:
    params, state = init(jax.random.key(0), image, width, classes)
    tx = optax.sgd(optax.linear_schedule(0.1, 0.0, 100), momentum=0.9)
    return params, state, tx.init(params), jnp.int32(0), jax.random.PRNGKey(0)
