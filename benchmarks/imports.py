"""What importing Treaty adds, in fresh interpreters: over what a schema imports anyway, and over JAX."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.harness import Row, Sample, duration

BESIDE: Final = "without it"
RESULT: Final = "adds (median)"

# Timed inside the process: starting an interpreter is slower and noisier than what is measured.
_TIMED: Final = """
from time import perf_counter
start = perf_counter()
import {base}
middle = perf_counter()
{added}
print(middle - start, perf_counter() - middle)
"""

# Names, not packages: those import what is behind a name when it is first used.
_SCHEMA: Final = "from treaty.schema import state, schema_of"
_RUNTIME: Final = "from treaty.runtime import save, restore"


def run(quick: bool) -> Iterator[Row]:
    processes = 1 if quick else 25
    schema: list[tuple[float, float]] = []
    runtime: list[tuple[float, float]] = []
    bare: list[float] = []
    help: list[float] = []
    for _ in range(processes):
        schema.append(_timed("jaxtyping, attrs", _SCHEMA))
        runtime.append(_timed("jax", _RUNTIME))
        bare.append(_process([sys.executable, "-c", "pass"]))
        help.append(_process([str(Path(sys.executable).with_name("treaty")), "--help"]))
    yield _row(f"{_SCHEMA} over import jaxtyping, attrs", schema, "< 100 ms")
    yield _row(f"{_RUNTIME} over import jax", runtime)
    extra = [(base, whole - base) for base, whole in zip(bare, help, strict=True)]
    yield _row("treaty --help over python -c pass", extra)


def _row(case: str, found: list[tuple[float, float]], target: str = "-") -> Row:
    base, added = Sample.of([base for base, _ in found]), Sample.of([added for _, added in found])
    whole = Sample.of([base + added for base, added in found])
    return Row(
        case,
        duration(whole.best),
        duration(base.best),
        f"{duration(added.best)} ({duration(added.median)})",
        target,
        {
            "treaty": whole.best,
            "treaty_median": whole.median,
            "beside": base.best,
            "beside_median": base.median,
            "added": added.best,
            "added_median": added.median,
        },
    )


def _timed(base: str, added: str) -> tuple[float, float]:
    code = _TIMED.format(base=base, added=added)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    first, second = map(float, done.stdout.split())
    return first, second


def _process(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start
