"""Directory checkpoints beside Orbax, JAX's own pytree save, safetensors, and raw writes and reads; all of them fsynced."""

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
import orbax.checkpoint as ocp
import safetensors.numpy
from jax.experimental.array_serialization import pytree_serialization

from benchmarks import models
from benchmarks.harness import Row, compare, give_back_memory, race, warm
from treaty.runtime import CheckpointManager, directory

BESIDE: Final = "beside"
RESULT: Final = "times faster"


def run(quick: bool) -> Iterator[Row]:
    large, small, rounds = ((2, 8), 10, 2) if quick else ((64, 2_048), 5_000, 5)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        yield from _large(Path(folder), *large, rounds)
        yield from _small(Path(folder), small, rounds)
        yield _inspect(Path(folder), small, rounds)
    if not quick:  # seven processes that import JAX and Orbax
        yield from _memory(*large)


def _large(folder: Path, count: int, d: int, rounds: int) -> Iterator[Row]:
    ours = models.kernels(count, d)
    arrays = [layer.kernel for layer in ours.layers]
    tree = {str(i): array for i, array in enumerate(arrays)}
    host = {key: np.asarray(array) for key, array in tree.items()}
    size = sum(array.nbytes for array in host.values())
    about = f"{count} arrays, {size / 2**20:,.0f} MiB"
    warm(3 * size)
    saving = _Steps(folder / "steps")
    writers: dict[str, Callable[[], object]] = {
        "treaty": lambda: directory.save(saving.next(), ours),
        "raw write": lambda: _write(saving.next(), list(host.values())),
        "orbax": lambda: ocp.PyTreeCheckpointer().save(saving.next(), tree),
        "jax pytree": lambda: pytree_serialization.save(tree, saving.next()),
        "safetensors": lambda: _synced(saving.next(), lambda path: safetensors.numpy.save_file(host, path)),
    }
    times = race(writers, rounds, between=saving.clear)
    for name, target in (("raw write", ">= 1x"), ("orbax", ">= 3x"), ("jax pytree", "-"), ("safetensors", "-")):
        yield compare(f"save, {about}: {name}", {"treaty": times["treaty"], name: times[name]}, target)

    directory.save(folder / "treaty", ours)
    _write(folder / "raw", list(host.values()))
    ocp.PyTreeCheckpointer().save(folder / "orbax", tree)
    safetensors.numpy.save_file(host, folder / "safetensors")
    args = ocp.checkpoint_utils.construct_restore_args(tree)
    readers: dict[str, Callable[[], object]] = {
        "treaty": lambda: models.wait(directory.restore(folder / "treaty", models.Kernels)),
        "raw read": lambda: _read(folder / "raw", [np.empty_like(array) for array in host.values()]),
        "orbax": lambda: models.wait(ocp.PyTreeCheckpointer().restore(folder / "orbax", restore_args=args)),
        "safetensors": lambda: models.wait(jax.device_put(safetensors.numpy.load_file(folder / "safetensors"))),
    }
    times = race(readers, rounds, between=give_back_memory)
    for name, target in (("raw read", ">= 0.8x"), ("orbax", ">= 3x"), ("safetensors", "-")):
        yield compare(f"restore into jax, {about}: {name}", {"treaty": times["treaty"], name: times[name]}, target)

    yield from _blocking(folder, ours, tree, about, rounds)


def _blocking(folder: Path, ours: Any, tree: Any, about: str, rounds: int) -> Iterator[Row]:
    """How long an asynchronous save keeps the caller; waiting for its end is not timed."""
    theirs = ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler())
    source = [np.asarray(array) for array in tree.values()]
    pending: list[Callable[[], object]] = []
    saving = _Steps(folder / "steps")
    manager = CheckpointManager(folder / "managed", models.Kernels, keep_last=1)
    steps = itertools.count()

    def wait() -> None:
        while pending:
            pending.pop()()
        saving.clear()

    def managed() -> None:
        manager.save(next(steps), ours)
        pending.append(manager.wait)

    def treaty() -> None:
        pending.append(directory.save_async(saving.next(), ours).result)

    def orbax() -> None:
        theirs.save(saving.next(), tree)
        pending.append(theirs.wait_until_finished)

    def copy() -> None:
        copies = [array.copy() for array in source]
        pending.append(copies.clear)

    with manager:
        times = race({"treaty": treaty, "managed": managed, "orbax": orbax, "memory copy": copy}, rounds, between=wait)
    for name, target in (("orbax", ">= 5x"), ("memory copy", ">= 0.77x")):
        yield compare(f"save_async blocks, {about}: {name}", {"treaty": times["treaty"], name: times[name]}, target)
    both = {"treaty": times["managed"], "save_async": times["treaty"]}
    yield compare(f"save of a manager blocks, {about}: save_async alone", both, ">= 1x")


def _small(folder: Path, nodes: int, rounds: int) -> Iterator[Row]:
    ours = models.device_model(models.device_leaves(nodes))
    tree = {str(i): {"kernel": layer.kernel, "bias": layer.bias} for i, layer in enumerate(ours.layers)}
    about = f"{2 * nodes:,} small leaves"
    rounds = max(2, rounds // 2)
    args = ocp.checkpoint_utils.construct_restore_args(tree)
    saving = {
        "treaty": lambda: directory.save(folder / "small", ours),
        "orbax": lambda: ocp.PyTreeCheckpointer().save(folder / "small-orbax", tree, force=True),
    }
    yield compare(f"save, {about}: orbax", race(saving, rounds), ">= 10x")
    restoring = {
        "treaty": lambda: models.wait(directory.restore(folder / "small", models.Model)),
        "orbax": lambda: models.wait(ocp.PyTreeCheckpointer().restore(folder / "small-orbax", restore_args=args)),
    }
    yield compare(f"restore into jax, {about}: orbax", race(restoring, rounds), ">= 10x")
    files, others = (sum(len(names) for _, _, names in os.walk(folder / name)) for name in ("small", "small-orbax"))
    yield Row(f"files on disk, {about}: orbax", str(files), str(others), "-", "-", {"treaty": files, "beside": others})


def _inspect(folder: Path, nodes: int, rounds: int) -> Row:
    """The command on the checkpoint of small leaves; the limit is a quarter of importing JAX."""
    commands = {
        "treaty": [sys.executable, "-m", "treaty.cli", "inspect", str(folder / "small")],
        "import jax": [sys.executable, "-c", "import jax"],
    }
    contenders = {
        name: lambda command=command: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for name, command in commands.items()
    }
    return compare(f"treaty inspect, {2 * nodes:,} leaves: import jax", race(contenders, rounds), ">= 4x")


_PEAK: Final = """
import subprocess, sys, tempfile
from benchmarks import models
from benchmarks.harness import peak_of
from treaty.runtime import CheckpointManager, directory
import orbax.checkpoint as ocp
what, count, d = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with tempfile.TemporaryDirectory() as folder:
    if what.startswith("restore"):
        subprocess.run([sys.executable, "-c", sys.argv[4], str(count), str(d), folder], check=True)
    small = models.kernels(2, 8)  # imports and caches
    directory.save(folder + "/warm", small)
    directory.restore(folder + "/warm", models.Kernels)
    ocp.PyTreeCheckpointer().save(folder + "/warm-orbax", {"a": small.layers[0].kernel})
    ocp.PyTreeCheckpointer().restore(folder + "/warm-orbax")
    ours = models.kernels(count, d) if what.startswith("save") else small
    tree = {str(i): layer.kernel for i, layer in enumerate(ours.layers)}
    print(peak_of({
        "save treaty": lambda: directory.save(folder + "/x", ours),
        "save orbax": lambda: ocp.PyTreeCheckpointer().save(folder + "/x", tree),
        "restore treaty": lambda: models.wait(directory.restore(folder + "/treaty", models.Kernels)),
        "restore orbax": lambda: models.wait(ocp.PyTreeCheckpointer().restore(folder + "/orbax")),
    }[what]))
"""
_WRITE: Final = """
import sys
from benchmarks import models
from treaty.runtime import CheckpointManager, directory
import orbax.checkpoint as ocp
_, count, d, folder = sys.argv
ours = models.kernels(int(count), int(d))
directory.save(folder + "/treaty", ours)
ocp.PyTreeCheckpointer().save(folder + "/orbax", {str(i): layer.kernel for i, layer in enumerate(ours.layers)})
"""


def _memory(count: int, d: int) -> Iterator[Row]:
    """Peak memory above what was there, each in a process of its own, as a share of the state."""
    state = count * d * d * 4
    for what, target in (("save", "<= 5%"), ("restore", "<= 110%")):
        peaks = []
        for who in ("treaty", "orbax"):
            command = [sys.executable, "-c", _PEAK, f"{what} {who}", str(count), str(d), _WRITE]
            peaks.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]))
        ours, theirs = peaks
        cells = (f"{ours / state:.1%}", f"{theirs / state:.1%}")
        yield Row(
            f"{what}, peak memory over what was there: orbax", *cells, "-", target, {"treaty": ours, "beside": theirs}
        )


def _write(path: Path, arrays: list[Any]) -> None:
    with open(path, "wb", buffering=0) as file:
        for array in arrays:
            view = memoryview(array.reshape(-1).view(np.uint8))
            while view:
                view = view[file.write(view) :]
        os.fsync(file.fileno())


def _read(path: Path, arrays: list[Any]) -> None:
    with open(path, "rb", buffering=0) as file:
        for array in arrays:
            view = memoryview(array.reshape(-1).view(np.uint8))
            while view:
                view = view[file.readinto(view) :]


def _synced(path: Path, write: Callable[[Path], None]) -> None:
    write(path)
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


class _Steps:
    """New paths for the saves of a run, which then go: removing an old gigabyte is no part of writing a new one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    def next(self) -> Path:
        self._folder.mkdir(exist_ok=True)
        return self._folder / str(next(self._numbers))

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        os.sync()  # what the file system still has to do is nobody's share
