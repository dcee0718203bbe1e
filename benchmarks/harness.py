"""Timing and tables. The machine is noisy, so contenders take turns within every round and the best round counts."""

import gc
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from attrs import field, frozen
from rich.console import Console
from rich.table import Table

from treaty.runtime._storage import system as _system


@frozen
class Sample:
    """Seconds of one contender: the best round, and the median of all."""

    best: float
    median: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Sample":
        return cls(min(seconds), statistics.median(seconds))


@frozen
class Row:
    """One line of a table: cells as text, and the numbers behind them (seconds, unless the name says otherwise)."""

    case: str
    treaty: str
    beside: str
    result: str
    target: str = "-"
    numbers: Mapping[str, float] = field(factory=dict)

    def as_data(self) -> dict[str, Any]:
        return {"case": self.case, "result": self.result, "target": self.target, **self.numbers}


class Benchmark(Protocol):
    """What each module of this package has: BESIDE names the other contender."""

    BESIDE: str
    RESULT: str

    def run(self, quick: bool, /) -> Iterable[Row]: ...


def race(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    at_least: float = 0.002,
    between: Callable[[], object] | None = None,
) -> dict[str, Sample]:
    """Seconds per call of each contender. A sample repeats the call until it takes `at_least` seconds.

    With `between`, which runs untimed after every call, there is one call a sample.
    """
    if between is not None:
        return _race_with_pauses(contenders, rounds, between)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    with _no_collector():
        loops = {name: _loops(function, at_least) for name, function in contenders.items()}
        for number in range(rounds):
            # Whoever goes first finds the caches as the other left them, so the order turns.
            for name in contenders if number % 2 == 0 else reversed(list(contenders)):
                seconds[name].append(_time(contenders[name], loops[name]) / loops[name])
    return {name: Sample.of(found) for name, found in seconds.items()}


def _race_with_pauses(
    contenders: Mapping[str, Callable[[], object]], rounds: int, between: Callable[[], object]
) -> dict[str, Sample]:
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, function in contenders.items():
            taken = _time(function, 1)
            between()
            if number:  # the first round warms up
                seconds[name].append(taken)
    return {name: Sample.of(found) for name, found in seconds.items()}


def compare(case: str, times: Mapping[str, Sample], target: str = "-", per: int = 1) -> Row:
    """The row of two contenders, Treaty first: how many times faster it is. `per` divides both, as by leaves."""
    ours, theirs = times.values()
    return Row(
        case,
        duration(ours.best / per),
        duration(theirs.best / per),
        f"{theirs.best / ours.best:.2f}x",
        target,
        {
            "treaty": ours.best / per,
            "treaty_median": ours.median / per,
            "beside": theirs.best / per,
            "beside_median": theirs.median / per,
            "ratio": theirs.best / ours.best,
        },
    )


def warm(size: int) -> None:
    """Touch and free memory: on a virtual machine the first touch of a page can cost more than what is measured."""
    np.empty(size, np.uint8)[::4096] = 1


def give_back_memory() -> None:
    """What was freed goes back to the system, so that no contender gets memory which another has touched."""
    gc.collect()
    _system.give_back_memory()


def peak_of(function: Callable[[], object]) -> int:
    """Bytes of memory that a call took above what was there, at its peak; its result is kept until then."""
    Path("/proc/self/clear_refs").write_text("5")  # forgets earlier peaks, also the one a process has from its parent
    before = _memory("VmRSS")
    kept = function()
    peak = _memory("VmHWM")
    del kept
    return peak - before


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def duration(seconds: float) -> str:
    """Three digits and a unit: `1.23 ms`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def show(console: Console, name: str, benchmark: Benchmark, rows: Iterable[Row], quick: bool) -> None:
    title = f"{name} (--quick: sizes too small to mean anything)" if quick else name
    table = Table("case", title=title, title_justify="left", title_style="bold")
    for heading in ("treaty", benchmark.BESIDE, benchmark.RESULT, "target"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(row.case, row.treaty, row.beside, row.result, row.target)
    console.print(table)


def environment() -> dict[str, Any]:
    packages = ("treaty", "jax", "flax", "numpy", "orbax-checkpoint", "safetensors", "mypy")
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def _loops(function: Callable[[], object], at_least: float) -> int:
    """How many calls fill a sample; finding out also warms up whatever the function needs."""
    function()
    loops = 1
    while (taken := _time(function, loops)) < at_least:
        loops = max(loops * 2, int(loops * at_least / max(taken, 1e-9)))
    return loops


def _time(function: Callable[[], object], loops: int) -> float:
    start = time.perf_counter()
    for _ in repeat(None, loops):
        function()
    return time.perf_counter() - start


@contextmanager
def _no_collector() -> Iterator[None]:
    """As in `timeit`: the garbage collector's runs would hit one contender or the other at random."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
