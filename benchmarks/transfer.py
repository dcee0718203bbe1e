"""What it costs that jax.Array fields hold jax arrays: restoring host arrays, beside the bare transfer of them."""

from collections.abc import Iterator
from typing import Any, Final

import jax
import numpy as np

from benchmarks import models
from benchmarks.harness import Row, compare, race
from treaty.runtime import from_state_dict, to_state_dict

BESIDE: Final = "device_put alone"
RESULT: Final = "device_put / treaty"


def run(quick: bool) -> Iterator[Row]:
    small = models.host_leaves(10 if quick else 1_000)
    yield _compare("small leaves, per leaf", small, 2 if quick else 30)
    side = 8 if quick else 1_024
    big = [(np.full((side, side), i, np.float32), np.full((side,), i, np.float32)) for i in range(8)]
    yield _compare(f"{side} x {side} kernels with their biases, per leaf", big, 2 if quick else 30)


def _compare(about: str, pairs: list[tuple[Any, Any]], rounds: int) -> Row:
    state = to_state_dict(models.host_model(pairs))
    arrays = [array for pair in pairs for array in pair]
    restored = from_state_dict(models.Model, state)
    for layer, (kernel, bias) in zip(restored.layers, pairs, strict=True):
        if not isinstance(layer.kernel, jax.Array) or not isinstance(layer.bias, jax.Array):
            raise AssertionError("a jax.Array field holds something else")
        np.testing.assert_array_equal(layer.kernel, kernel)
        np.testing.assert_array_equal(layer.bias, bias)
    times = race(
        {
            "treaty": lambda: models.wait(from_state_dict(models.Model, state)),
            "device_put": lambda: models.wait(jax.device_put(arrays)),
        },
        rounds,
    )
    return compare(f"{len(arrays):,} {about}", times, per=len(arrays))
