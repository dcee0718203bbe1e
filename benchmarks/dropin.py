"""The drop-in module beside Flax's own, on trees of Flax: one import changed, every shape and dtype checked."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import flax.core
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from flax import serialization as flax_serialization
from flax.training.train_state import TrainState

from benchmarks import models
from benchmarks.harness import Row, compare, race
from treaty.runtime import serialization

BESIDE: Final = "flax"
RESULT: Final = "times faster"
_TARGET: Final = ">= 2x"


def run(quick: bool) -> Iterator[Row]:
    layers, rounds = (4, 2) if quick else (333, 25)
    params = _params(layers, 4)
    create: Any = TrainState.create
    train = create(apply_fn=None, params=params, tx=optax.adamw(1e-3))
    yield from _compare("TrainState with adamw", train, rounds)
    yield from _compare("FrozenDict", flax.core.freeze(_params(3 * layers, 4)), rounds)
    yield from _compare("nnx", _nnx(layers), rounds)
    yield from _compare("large arrays", _params(2 if quick else 8, 8 if quick else 2_048), min(rounds, 8))


def _params(layers: int, d: int) -> Any:
    """Dense layers as linen names them, in the order that jax.tree.map gives them."""
    made = {f"Dense_{i}": {"bias": jnp.full(d, i, jnp.float32), "kernel": jnp.ones((d, d))} for i in range(layers)}
    return jax.tree.map(lambda leaf: leaf, made)


def _nnx(layers: int) -> Any:
    rngs = nnx.Rngs(0)
    return nnx.to_pure_dict(nnx.state(nnx.Sequential(*[nnx.Linear(4, 4, rngs=rngs) for _ in range(3 * layers)])))


def _compare(name: str, tree: Any, rounds: int) -> Iterator[Row]:
    data, state = flax_serialization.to_bytes(tree), flax_serialization.to_state_dict(tree)
    if serialization.to_bytes(tree) != data:
        raise AssertionError("the bytes differ from Flax's")
    models.check_same_state(serialization.to_state_dict(tree), state)
    stored = flax_serialization.msgpack_restore(data)
    calls: dict[str, Callable[[Any], Any]] = {
        "to_state_dict": lambda module: module.to_state_dict(tree),
        "from_state_dict": lambda module: module.from_state_dict(tree, stored),
        "to_bytes": lambda module: module.to_bytes(tree),
        "from_bytes": lambda module: module.from_bytes(tree, data),
    }
    about = f"{name}, {len(jax.tree.leaves(tree)):,} leaves, {len(data) / 2**20:,.0f} MiB"
    for function, call in calls.items():
        both = {
            "treaty": lambda call=call: call(serialization),
            "flax": lambda call=call: call(flax_serialization),
        }
        yield compare(f"{function}, {about}", race(both, rounds), _TARGET)
