"""Conversion of 2 GiB in kernels of 16 MiB and their biases, compared leaf by leaf: beside a raw copy, fsynced; and its memory."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks import models
from benchmarks.harness import Row, compare, race, warm
from treaty.runtime._convert.convert import convert
from treaty.runtime.formats import msgpack
from treaty.runtime.formats.table import format_at, format_meant

BESIDE: Final = "raw copy"
RESULT: Final = "times faster"
# source, destination, format of a destination whose suffix does not say it
_WAYS: Final = (
    ("x.msgpack", "x.safetensors", None),
    ("x.safetensors", "y.msgpack", None),
    ("x.safetensors", "x.npz", None),
    ("x.safetensors", "directory", "treaty"),
    ("directory", "z.msgpack", None),
    ("x.safetensors", "orbax", "orbax"),
    ("orbax", "z.safetensors", None),
)


def run(quick: bool) -> Iterator[Row]:
    nodes, d, rounds = (4, 8, 2) if quick else (128, 2**11, 3)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        folder = Path(name)
        layers = {str(i): {"kernel": pair[0], "bias": pair[1]} for i, pair in enumerate(models.layers(nodes, d))}
        msgpack.write_file(folder / "x.msgpack", {"layers": layers})
        del layers
        warm(2**28 if not quick else 2**20)
        for source, destination, to in _WAYS:
            yield _way(folder, source, destination, to, rounds)
        yield _memory(folder, "between files", _WAYS[:3])
        yield _memory(folder, "from and to TensorStore", _WAYS[3:])
        _clear(folder)
        array = np.lib.format.open_memmap(folder / "one.npy", "w+", np.float32, (nodes * d, d))
        array[:] = np.arange(d, dtype=np.float32)
        msgpack.write_file(folder / "x.msgpack", {"one": array})
        yield _memory(folder, "one array, between files", _WAYS[:3])
        yield _memory(folder, "one array, from and to TensorStore", _WAYS[3:])


def _way(folder: Path, source: str, destination: str, to: str | None, rounds: int) -> Row:
    """Each to a new place; what the round before left is removed, and all is on the disk, before the clock starts."""
    place = folder / destination

    def between() -> None:
        (folder / "copy").unlink(missing_ok=True)
        old = folder / "old"
        if place.exists():
            place.rename(old)
        shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink(missing_ok=True)
        os.sync()

    contenders: Mapping[str, Callable[[], object]] = {
        "treaty": lambda: convert(folder / source, place, to_format=to),
        BESIDE: lambda: _copy(folder / "x.msgpack", folder / "copy"),
    }
    between()
    size = (folder / "x.msgpack").stat().st_size
    case = f"{format_at(str(folder / source)).name} -> {to or format_meant(place.name).name}, {size / 2**20:,.0f} MiB"
    times = race(contenders, rounds, between=between)
    contenders["treaty"]()  # later ways begin there
    return compare(case, times, ">= 0.5x")


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _memory(folder: Path, what: str, ways: Sequence[tuple[str, str, str | None]]) -> Row:
    """The highest peak of some conversions, one after the other, in a process that does nothing else."""
    arguments = [part or "" for way in ways for part in way]
    command = [sys.executable, "-c", _PEAK, *arguments]
    path = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **path}, capture_output=True, text=True, check=True)
    extra = int(done.stdout)
    return Row(f"{what}, peak extra memory", f"{extra / 1e6:.0f} MB", "-", "-", "< 256 MB", {"treaty_bytes": extra})


def _copy(source: Path, destination: Path) -> None:
    """All bytes through memory, as any conversion must; a clone by the file system would be no copy."""
    block = memoryview(bytearray(2**23))
    with open(source, "rb", buffering=0) as reader, open(destination, "wb", buffering=0) as writer:
        while count := reader.readinto(block):
            left = block[:count]
            while left:
                left = left[writer.write(left) :]
        os.fsync(writer.fileno())


_PEAK: Final = """
import sys
import tensorstore
from benchmarks.harness import peak_of
from treaty.runtime._convert.convert import convert
steps = list(zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3]))
print(max(peak_of(lambda: convert(*step[:2], to_format=step[2] or None, replace=True)) for step in steps))
"""
