"""Directories with `compress="zstd"` beside uncompressed ones: how much smaller, and how much slower, by what is in the arrays."""

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax import Array

from benchmarks.harness import Row, compare, give_back_memory, race, warm
from treaty.generator import load
from treaty.runtime import inspect, restore, save
from treaty.schema import state

BESIDE: Final = "plain"
RESULT: Final = "plain / zstd"


@state
class Loose:
    arrays: Any


load(Loose)


def run(quick: bool) -> Iterator[Row]:
    size, rounds = (2**19, 2) if quick else (2**26, 5)
    with tempfile.TemporaryDirectory() as folder:
        for what, make in _KINDS.items():
            yield from _kind(Path(folder), what, make(np.random.default_rng(0), size), rounds)


def _kind(folder: Path, what: str, array: Any, rounds: int) -> Iterator[Row]:
    value, about = Loose(arrays={"0": array}), f"{what}, {array.nbytes / 2**20:,.0f} MiB"
    warm(3 * array.nbytes)
    ways = {"zstd": "zstd", "plain": None}
    saving: dict[str, Callable[[], object]] = {
        name: partial(save, folder / name, value, compress=how) for name, how in ways.items()
    }
    yield compare(f"save, {about}", race(saving, rounds, between=lambda: None))
    loading: dict[str, Callable[[], object]] = {
        name: partial(restore, folder / name, Loose, into="numpy") for name in ways
    }
    yield compare(f"restore, {about}", race(loading, rounds, between=give_back_memory))
    stored: Any = inspect(folder / "zstd").leaves[0]
    cells = (f"{stored.stored_bytes / 2**20:.1f} MiB", f"{array.nbytes / 2**20:.1f} MiB")
    ratio = array.nbytes / stored.stored_bytes
    yield Row(f"bytes, {about}", *cells, f"{ratio:.2f}x", "-", {"treaty": stored.stored_bytes, "beside": array.nbytes})


def _weights(random: np.random.Generator, size: int) -> Any:
    """As those of a layer are distributed when it was trained: about zero, in all bits of the mantissa."""
    return random.standard_normal((64, size // 64), np.float32) * np.float32(0.02)


def _moments(random: np.random.Generator, size: int) -> Any:
    """The second moments of Adam: squares of small gradients, over many magnitudes."""
    spread = np.exp(random.standard_normal((64, 1), np.float32) * 2)
    return (random.standard_normal((64, size // 64), np.float32) * np.float32(1e-4) * spread) ** 2


def _tokens(random: np.random.Generator, size: int) -> Any:
    """Numbers of words, few of which are frequent."""
    return np.minimum(random.zipf(1.2, (64, size // 64)), 50_000).astype(np.int32)


_KINDS: Final[dict[str, Callable[[np.random.Generator, int], Array | np.ndarray[Any, Any]]]] = {
    "float32 weights": _weights,
    "bfloat16 weights": lambda random, size: _weights(random, size).astype(jnp.bfloat16),
    "float32 second moments": _moments,
    "int32 tokens": _tokens,
    "rows that were never touched": lambda random, size: np.zeros((64, size // 64), np.float32),
}
