"""safetensors beside its library, both fsynced: 1 GiB in 64 layers, 20,000 tiny tensors, and the memory each takes."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors.numpy import load_file, save_file

from benchmarks import models
from benchmarks.harness import Row, compare, race, warm
from treaty.runtime import restore
from treaty.runtime.formats import safetensors

BESIDE: Final = "the library"
RESULT: Final = "times faster"


def run(quick: bool) -> Iterator[Row]:
    large, tiny = ((2, 8), (10, 4)) if quick else ((64, 2**11), (10_000, 4))
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        for nodes, d in (large, tiny):
            yield from _compare(Path(folder), nodes, d, rounds=2 if quick else 5)
    yield from _memory(*large)


def _compare(folder: Path, nodes: int, d: int, rounds: int) -> Iterator[Row]:
    pairs = models.layers(nodes, d)
    model, flat = models.host_model(pairs), _flat(pairs)
    ours, theirs = folder / "ours.safetensors", folder / "theirs.safetensors"
    size = sum(array.nbytes for array in flat.values())
    about = f"{len(flat):,} tensors, {size / 2**20:,.0f} MiB"
    warm(3 * size)
    writers = {"treaty": lambda: safetensors.save(ours, model), "library": lambda: _save(flat, theirs)}
    yield compare(f"save, {about}", race(writers, rounds), ">= 1x")
    _check_same(load_file(ours), flat)
    readers: dict[str, Callable[[], object]] = {
        "load": lambda: safetensors.load(theirs),
        "load, all pages": lambda: _touch(_leaves(safetensors.load(theirs)[0])),
        "restore by the class": lambda: restore(theirs, models.HostModel, into="numpy"),
        "library": lambda: load_file(theirs),
        "library, all pages": lambda: _touch(load_file(theirs)),
    }
    times = race(readers, rounds)
    for what, beside in (
        ("load", "library"),
        ("load, all pages", "library, all pages"),
        ("restore by the class", "library"),
    ):
        yield compare(f"{what}, {about}", {"treaty": times[what], "library": times[beside]}, ">= 1x")


def _flat(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    return {
        f"layers.{i}.{name}": leaf
        for i, pair in enumerate(pairs)
        for name, leaf in zip(("kernel", "bias"), pair, strict=True)
    }


def _save(flat: Mapping[str, Any], path: Path) -> None:
    save_file(dict(flat), path)
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _leaves(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{i}.{name}": leaf for i, layer in tree["layers"].items() for name, leaf in layer.items()}


def _touch(flat: Mapping[str, Any]) -> float:
    """Views of a mapped file have read nothing yet: look at every page."""
    return float(sum(leaf.reshape(-1).view(np.uint8)[::4096].sum() for leaf in flat.values()))


def _check_same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    if found.keys() != expected.keys() or not all(np.array_equal(found[name], expected[name]) for name in expected):
        raise AssertionError("the library reads other tensors than were saved")


def _memory(nodes: int, d: int) -> Iterator[Row]:
    """Peak memory above what was there, each in a process of its own, as a share of the tensors."""
    state = nodes * (d * d + d) * 4
    for what in ("save", "load"):
        command = [sys.executable, "-c", _PEAK, what]
        ours, theirs = (
            int(subprocess.run([*command, who, str(nodes), str(d)], capture_output=True, text=True, check=True).stdout)
            for who in ("treaty", "library")
        )
        numbers = {"treaty_bytes": ours, "beside_bytes": theirs}
        shares = f"{ours / state:.1%}", f"{theirs / state:.1%}"
        yield Row(f"{what}, peak extra memory", *shares, "-", "below", numbers)


_PEAK: Final = """
import sys, tempfile
from pathlib import Path
from safetensors.numpy import load_file, save_file
from benchmarks import models
from benchmarks.harness import peak_of
from benchmarks.safetensors import _flat
from treaty.runtime.formats import safetensors
what, who, nodes, d = *sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4])
pairs = models.layers(nodes, d)
model, flat = models.host_model(pairs), _flat(pairs)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "x.safetensors"
    small = models.layers(2, 4)
    safetensors.save(path, models.host_model(small))  # imports and caches
    save_file(_flat(small), path)
    if what == "load":
        safetensors.save(path, model)
    print(peak_of({
        "save treaty": lambda: safetensors.save(path, model),
        "save library": lambda: save_file(flat, path),
        "load treaty": lambda: safetensors.load(path),
        "load library": lambda: load_file(path),
    }[f"{what} {who}"]))
"""
