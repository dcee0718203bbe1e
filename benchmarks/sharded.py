"""Arrays over eight devices of one process, saved and restored in four layouts, beside Orbax; all fsynced."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
import orbax.checkpoint as ocp
import tensorstore as ts
from attrs import astuple
from jax.sharding import Mesh, NamedSharding

from benchmarks import models
from benchmarks.harness import Row, compare, give_back_memory, race, warm
from treaty.runtime import restore, save
from treaty.runtime._lazy import Part
from treaty.runtime._restore.source import Source
from treaty.runtime.formats.directory.layout import TILE_BYTES
from treaty.runtime.formats.table import reading

BESIDE: Final = "beside"
RESULT: Final = "times faster"
_DEVICES: Final = 8
_MEMORY: Final = Path("/dev/shm")  # a file system in memory, where there is one
_untyped: Any = jax  # which has no types for these constructors
# What is measured: the mesh and the axes of an array when it is saved, and when it is restored.
_LAYOUTS: Final = {
    "the same, in rows": ((8,), ("x",), (8,), ("x",)),
    "4x2 to 2x4": ((4, 2), ("x", "y"), (2, 4), ("x", "y")),
    "rows to columns": ((8,), ("x",), (8,), (None, "x")),
    "replicated": ((8,), (), (8,), ()),
}


def run(quick: bool) -> Iterator[Row]:
    """In a process that has eight devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={_DEVICES}"
    command = [sys.executable, "-m", "benchmarks.sharded", *(["--quick"] if quick else [])]
    done = subprocess.run(command, env={**os.environ, "XLA_FLAGS": flags}, stdout=subprocess.PIPE, check=True)
    for case, treaty, beside, result, target, numbers in json.loads(done.stdout):
        yield Row(case, treaty, beside, result, target, numbers)


def main() -> None:
    sizes = ((2, 512, 1),) if "--quick" in sys.argv else ((32, 2_048, 5), (2, 8_192, 5))
    rows = [row for size in sizes for row in _rows(*size)]
    if _MEMORY.is_dir():
        rows += [row for size in sizes for row in _saves_to_memory(*size)]
    print(json.dumps([astuple(one) for one in rows]))


def _rows(count: int, d: int, rounds: int) -> Iterator[Row]:
    warm(3 * count * d * d * 4)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        for name, (mesh, axes, later, others) in _LAYOUTS.items():
            yield from _layout(Path(folder), name, _over(mesh, axes), _over(later, others), count, d, rounds)


def _saves_to_memory(count: int, d: int, rounds: int) -> Iterator[Row]:
    """The same saves on a file system in memory: what there is to gain where the disk is not what both wait for."""
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        for name, (mesh, axes, *_) in _LAYOUTS.items():
            yield from _saves(Path(folder), f"to memory, {name}", *_arrays(_over(mesh, axes), count, d), rounds)


def _over(shape: tuple[int, ...], axes: tuple[str | None, ...]) -> NamedSharding:
    mesh = Mesh(np.array(jax.devices()).reshape(shape), ("x", "y")[: len(shape)])
    return NamedSharding(mesh, _untyped.sharding.PartitionSpec(*axes))


def _arrays(sharding: NamedSharding, count: int, d: int) -> tuple[Any, dict[str, Any]]:
    ours: Any = models.wait(jax.device_put(models.kernels(count, d), sharding))
    return ours, {str(i): layer.kernel for i, layer in enumerate(ours.layers)}


def _saves(folder: Path, name: str, ours: Any, tree: dict[str, Any], rounds: int) -> Iterator[Row]:
    theirs: Any = ocp.StandardCheckpointer()

    def clear() -> None:
        for kind in ("treaty", "orbax", "raw"):
            shutil.rmtree(folder / kind, ignore_errors=True)
        os.sync()
        give_back_memory()

    writers: dict[str, Callable[[], object]] = {
        "treaty": partial(save, folder / "treaty", ours),
        "orbax": partial(_save_orbax, theirs, folder / "orbax", tree),
        "raw": partial(_write_raw, folder / "raw", list(tree.values())),
    }
    times = race(writers, rounds, between=clear)
    about = f"{name}, {_size(tree)}"
    yield compare(f"save, {about}", {"treaty": times["treaty"], "orbax": times["orbax"]}, ">= 3x")
    yield compare(f"save, {about}: four threads that only write", {"treaty": times["treaty"], "raw": times["raw"]}, "-")
    clear()


def _size(tree: dict[str, Any]) -> str:
    return f"{len(tree)} arrays, {sum(array.nbytes for array in tree.values()) / 2**20:,.0f} MiB"


def _save_orbax(checkpointer: Any, path: Path, tree: dict[str, Any]) -> None:
    checkpointer.save(path, tree)
    checkpointer.wait_until_finished()


def _layout(
    folder: Path, name: str, saved: NamedSharding, wanted: NamedSharding, count: int, d: int, rounds: int
) -> Iterator[Row]:
    ours, tree = _arrays(saved, count, d)
    yield from _saves(folder, name, ours, tree, rounds)

    theirs: Any = ocp.StandardCheckpointer()
    about = f"{name}, {_size(tree)}"
    save(folder / "treaty", ours)
    _save_orbax(theirs, folder / "orbax", tree)
    like = jax.tree.map(lambda array: _untyped.ShapeDtypeStruct(array.shape, array.dtype, sharding=wanted), tree)
    where = jax.tree.map(lambda _: wanted, ours)
    readers: dict[str, Callable[[], object]] = {
        "treaty": lambda: models.wait(restore(folder / "treaty", models.Kernels, shardings=where)),
        "orbax": lambda: models.wait(theirs.restore(folder / "orbax", like)),
    }
    yield compare(f"restore, {about}", race(readers, rounds, between=give_back_memory), ">= 3x")
    if saved is not wanted and "replicated" not in name:
        yield _bytes_read(folder, about, wanted, tree)
    for kind in ("treaty", "orbax"):
        shutil.rmtree(folder / kind)


def _write_raw(folder: Path, arrays: list[Any]) -> None:
    """What the disk takes for the same bytes: files of a chunk's size, each written at once and synced."""
    folder.mkdir()
    pieces = [piece for array in arrays for piece in _pieces(np.asarray(array).reshape(-1).view(np.uint8))]

    def write(number: int) -> None:
        with open(folder / str(number), "xb", buffering=0) as file:
            file.write(pieces[number])
            os.fsync(file.fileno())

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(len(pieces))))


def _pieces(content: Any) -> list[Any]:
    return [content[start : start + TILE_BYTES] for start in range(0, len(content), TILE_BYTES)]


def _bytes_read(folder: Path, about: str, wanted: NamedSharding, tree: dict[str, Any]) -> Row:
    """What each device reads of the first array, as if it were alone in its process, over what it needs."""
    key, array = next(iter(tree.items()))
    boxes = list(wanted.devices_indices_map(array.shape).values())

    def ours(source: Source) -> None:
        kernel = source.tree()["layers"][key]["kernel"]
        for box in boxes:
            start = tuple(one.indices(size)[0] for one, size in zip(box, array.shape, strict=True))
            kernel.fill(Part(start, np.empty(array[box].shape, array.dtype)))

    base = {"driver": "ocdbt", "base": f"file://{folder / 'orbax'}/", "path": f"{key}/"}
    store: Any = ts.open({"driver": "zarr", "kvstore": base}, open=True).result()
    treaty = _counted(lambda: reading(folder / "treaty", ours))
    orbax = _counted(lambda: [store[box].read().result() for box in boxes])
    numbers = {"treaty": treaty / array.nbytes, "beside": orbax / array.nbytes}
    cells = (f"{treaty / array.nbytes:.2f}", f"{orbax / array.nbytes:.2f}", f"{orbax / treaty:.2f}x")
    return Row(f"bytes read over bytes needed, {about}", *cells, "-", numbers)


def _counted(read: Callable[[], object]) -> int:
    """Bytes that this process reads from files meanwhile."""
    before = _read_so_far()
    read()
    return _read_so_far() - before


def _read_so_far() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


if __name__ == "__main__":
    main()
