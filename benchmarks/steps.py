"""Steps of a run whose state changed in part, based on the step before, beside steps of Orbax's CheckpointManager; all fsynced."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from attrs import evolve

from benchmarks import models
from benchmarks.harness import Row, compare, race, warm
from treaty.runtime import save

BESIDE: Final = "beside"
RESULT: Final = "times faster"


def run(quick: bool) -> Iterator[Row]:
    count, d, rounds = (4, 512, 2) if quick else (128, 1448, 5)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        yield from _steps(Path(folder), count, d, rounds)


def _steps(folder: Path, count: int, d: int, rounds: int) -> Iterator[Row]:
    first: Any = models.kernels(count, d)
    about = f"{count} arrays, {count * d * d * 4 / 2**20:,.0f} MiB"
    warm(3 * count * d * d * 4)
    save(folder / "base", first)
    manager: Any = ocp.CheckpointManager(
        folder / "orbax", options=ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
    )
    numbers = iter(range(10**6))
    layer = jax.tree.map(lambda array: array + 1, first.layers[0])
    states = {
        "one array changed": evolve(first, layers=(layer, *first.layers[1:])),
        "nothing changed": first,
        "all equal, in other arrays": jax.tree.map(jnp.copy, first),
        "all changed": jax.tree.map(lambda array: array + 1, first),
    }
    models.wait(list(states.values()))

    def clear() -> None:
        shutil.rmtree(folder / "step", ignore_errors=True)
        for step in manager.all_steps():
            manager.delete(step)
        os.sync()

    def orbax(state: Any) -> None:
        tree = {str(i): one.kernel for i, one in enumerate(state.layers)}
        manager.save(next(numbers), args=ocp.args.StandardSave(tree))
        manager.wait_until_finished()

    for what, state in states.items():
        ways: dict[str, Callable[[], object]] = {
            "treaty": partial(save, folder / "step", state, base=folder / "base"),
            "full": partial(save, folder / "step", state),
            "orbax": partial(orbax, state),
        }
        times = race(ways, rounds, between=clear)
        for name, target in (("orbax", ">= 20x" if "changed" in what and "all" not in what else "-"), ("full", "-")):
            yield compare(f"{what}, {about}: {name}", {"treaty": times["treaty"], name: times[name]}, target)
        save(folder / "step", state, base=folder / "base")
        full, both = (_disk(folder / "base"), _disk(folder / "base", folder / "step"))
        grown = both - full
        numbers_of = {"treaty": grown, "beside": full}
        cells = (f"{grown / 2**20:.1f} MiB", f"{full / 2**20:.1f} MiB", f"{grown / full:.1%}")
        yield Row(f"{what}, {about}: disk", *cells, "-" if "all" in what else "<= 5%", numbers_of)
        clear()
    manager.close()


def _disk(*places: Path) -> int:
    """What these take together: a file with two names counts once."""
    told = subprocess.run(
        ["du", "--summarize", "--total", "--block-size=1", *places], capture_output=True, text=True, check=True
    )
    return int(told.stdout.splitlines()[-1].split()[0])
