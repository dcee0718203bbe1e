"""What optax has for states, each over the same two layers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

_SCHEDULE = optax.linear_schedule(1e-3, 0.0, 100)


def _is_matrix(params: Any) -> Any:
    return jax.tree.map(lambda one: one.ndim > 1, params)


def _groups(params: Any) -> Any:
    return jax.tree.map(lambda one: "matrix" if one.ndim > 1 else "vector", params)


OPTIMIZERS: dict[str, Any] = {
    "adam": optax.adam(1e-3),
    "adamw_with_schedule": optax.adamw(_SCHEDULE),
    "adamw_with_mask": optax.adamw(1e-3, mask=_is_matrix),
    "adam_with_bfloat16": optax.adam(1e-3, mu_dtype=jnp.bfloat16),
    "sgd": optax.sgd(0.1),
    "momentum": optax.sgd(0.1, momentum=0.9),
    "lion": optax.lion(1e-3),
    "lamb": optax.lamb(1e-3),
    "rmsprop": optax.rmsprop(1e-3, momentum=0.9),
    "amsgrad": optax.amsgrad(1e-3),
    "adagrad": optax.adagrad(1e-3),
    "adadelta": optax.adadelta(1e-3),
    "adafactor": optax.adafactor(1e-3, min_dim_size_to_factor=4),
    "adafactor_of_small": optax.adafactor(1e-3),
    "chain": optax.chain(optax.clip(1.0), optax.ema(0.99), optax.scale_by_schedule(_SCHEDULE), optax.trace(0.9)),
    "named_chain": optax.named_chain(("clip", optax.clip(1.0)), ("adam", optax.adam(1e-3))),
    "multi_steps": optax.MultiSteps(optax.adamw(1e-3), 4),
    "multi_steps_that_skip": optax.MultiSteps(optax.sgd(0.1), 2, should_skip_update_fn=optax.skip_not_finite),
    "masked": optax.masked(optax.adam(1e-3), _is_matrix),
    "multi_transform": optax.multi_transform({"matrix": optax.adamw(1e-3), "vector": optax.sgd(0.1)}, _groups),
    "inject_hyperparams": optax.inject_hyperparams(optax.adamw)(learning_rate=_SCHEDULE, weight_decay=0.1),
    "apply_if_finite": optax.apply_if_finite(optax.adam(1e-3), 3),
    "schedule_free": optax.contrib.schedule_free_adamw(1e-3),
    "noise": optax.chain(optax.zero_nans(), optax.add_noise(0.1, 0.1, 0)),
    "lbfgs": optax.lbfgs(memory_size=3),
    "muon": optax.contrib.muon(1e-3),
}


def factory(name: str) -> Callable[..., dict[str, Any]]:
    def make_state(d_in: int = 6, d_ff: int = 24) -> dict[str, Any]:
        params = {
            "up": {"w": jnp.ones((d_in, d_ff)), "b": jnp.zeros(d_ff)},
            "down": {"w": jnp.ones((d_ff, d_in)), "b": jnp.zeros(d_in)},
        }
        if name.startswith("multi_steps"):
            params = jax.tree.map(lambda one: one.astype(jnp.bfloat16), params)
        return {"params": params, "opt_state": OPTIMIZERS[name].init(params)}

    return make_state
