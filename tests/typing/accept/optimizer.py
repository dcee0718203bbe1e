"""A state class as the params of optax: to its own annotations params are arrays, iterables and mappings, and no classes."""

from typing import Any

import optax  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from schemas.model import Linear


def train(params: Linear, grads: Linear) -> Linear:
    tx: Any = optax.adamw(1e-3)
    apply_updates: Any = optax.apply_updates
    opt_state = tx.init(params)
    updates, opt_state = tx.update(grads, opt_state, params)
    stepped: Linear = apply_updates(params, updates)
    reveal_type(stepped)  # Linear
    return stepped
