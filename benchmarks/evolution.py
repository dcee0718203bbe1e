"""What a lock costs: nothing where digests are equal, little where an old checkpoint is brought to the present, and in CI."""

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from benchmarks.generate import module_text
from benchmarks.harness import Row, Sample, compare, duration, give_back_memory, race
from treaty.generator._modules import Module, read_modules
from treaty.generator._project import Project
from treaty.runtime import restore, save
from treaty.schema import Schema
from treaty.schema.evolution.lock import Lock

BESIDE: Final = "beside"
RESULT: Final = "beside / treaty"

_HEADER: Final = """
import numpy as np
from jaxtyping import Float32

from treaty.schema import field, state
"""
_FIRST: Final = """
@state
class Layer:
    kernel: Float32[np.ndarray, "a b"]
    bias: Float32[np.ndarray, "b"]


@state
class Model:
    layers: list[Layer]
"""
_SECOND: Final = """
@state
class Layer:
    weight: Float32[np.ndarray, "a b"] = field(aliases=("kernel",))
    bias: Float32[np.ndarray, "b"]


@state
class Model:
    layers: list[Layer]
    step: int = 3
"""
# The first version saves in a process of its own, as it did when it was released.
_SAVE: Final = """
import sys
import numpy as np
from evolving_state import Layer, Model
from treaty.runtime import save

count, side, *paths = sys.argv[1:]
side = int(side)
layers = [Layer(kernel=np.full((side, side), n, np.float32), bias=np.ones(side, np.float32)) for n in range(int(count))]
for path in paths:
    save(path, Model(layers=layers))
"""
FORMATS: Final = {"directory": "", "msgpack": ".msgpack", "safetensors": ".safetensors"}  # and their suffixes
TURNS: Final = {"directory": 1, "msgpack": 20, "safetensors": 4}  # a round takes about as long with each
REVISIONS: Final = 50


def run(quick: bool) -> Iterator[Row]:
    small, large, classes, rounds = ((10, 2), (2, 8), 10, 2) if quick else ((5_000, 2), (64, 2_048), 500, 9)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        root = Path(folder)
        _first(root, {"small": small, "large": large})
        with _second(root) as (locked, plain):
            yield from _equal(root, locked, plain, *small, rounds)
            yield from _differing(root, locked, *small, rounds)
            yield _added(root, locked, *large, rounds)
        yield _check(root, classes, min(REVISIONS, classes // 5), 1 if quick else 5)


def _first(root: Path, sizes: dict[str, tuple[int, int]]) -> None:
    """A project, its first revision, and what was saved then."""
    (root / "evolving_state.py").write_text(_HEADER + _FIRST)
    (root / "plain_state.py").write_text(_HEADER + _SECOND)
    _treaty(root, "lock", "evolving_state", "-m", "first")
    for name, (count, side) in sizes.items():
        suffixes = FORMATS.values() if name == "small" else [""]
        paths = [str(root / f"{name}{suffix}") for suffix in suffixes]
        command = [sys.executable, "-c", _SAVE, str(count), str(side), *paths]
        subprocess.run(command, cwd=root, check=True)


@contextmanager
def _second(root: Path) -> Iterator[tuple[Any, Any]]:
    """The second revision, locked, and the same declaration in a module without a lock, both imported."""
    (root / "evolving_state.py").write_text(_HEADER + _SECOND)
    _treaty(root, "lock", "evolving_state", "-m", "second")
    _treaty(root, "generate", "plain_state")
    sys.path.insert(0, str(root))
    try:
        yield importlib.import_module("evolving_state"), importlib.import_module("plain_state")
    finally:
        sys.path.remove(str(root))
        for name in [name for name in sys.modules if name.startswith(("evolving_state", "plain_state"))]:
            del sys.modules[name]


def _equal(root: Path, locked: Any, plain: Any, count: int, side: int, rounds: int) -> Iterator[Row]:
    state = restore(root / "small", locked.Model, into="numpy")
    without = plain.Model(layers=[plain.Layer(weight=one.weight, bias=one.bias) for one in state.layers])
    for format, suffix in FORMATS.items():
        paths = root / f"locked{suffix}", root / f"plain{suffix}"
        save(paths[0], state)
        save(paths[1], without)
        readers = {"treaty": _restoring(paths[0], locked.Model), "without a lock": _restoring(paths[1], plain.Model)}
        about = f"{format}, {2 * count:,} leaves"
        yield compare(f"digests equal, {about}: without a lock", race(readers, rounds * TURNS[format]), ">= 0.95x")


def _differing(root: Path, locked: Any, count: int, side: int, rounds: int) -> Iterator[Row]:
    for format, suffix in FORMATS.items():
        readers = {
            "treaty": _restoring(root / f"small{suffix}", locked.Model),
            "present": _restoring(root / f"locked{suffix}", locked.Model),
        }
        about = f"{format}, {2 * count:,} leaves"
        yield compare(f"renamed and filled in, {about}: as it is", race(readers, rounds * TURNS[format]), ">= 0.95x")


def _added(root: Path, locked: Any, count: int, side: int, rounds: int) -> Row:
    """What a rename and a default add, in seconds: reading takes as long either way."""
    save(root / "large-present", restore(root / "large", locked.Model, into="numpy"))
    readers = {name: _restoring(root / name, locked.Model) for name in ("large", "large-present")}
    times = race(readers, rounds, between=give_back_memory)
    old, new = times["large"].best, times["large-present"].best
    size = count * (side + 1) * side * 4 / 2**20
    case = f"renamed and filled in, directory of {size:,.0f} MiB"
    return Row(case, duration(old), duration(new), f"{duration(old - new)} more", "< 20 ms", {"added": old - new})


def _check(root: Path, classes: int, revisions: int, rounds: int) -> Row:
    """`treaty check` of a module with a long history beside one without."""
    folders = {"treaty": root / "locked-module", "without a lock": root / "free-module"}
    for name, folder in folders.items():
        folder.mkdir()
        (folder / "big.py").write_text(_grown(classes, revisions))
        if name == "treaty":
            _lock_long(folder, revisions)
        _treaty(folder, "generate", "big")
    seconds: dict[str, list[float]] = {name: [] for name in folders}
    for _ in range(rounds):
        for name, folder in folders.items():
            start = time.perf_counter()
            _treaty(folder, "check", "big")
            seconds[name].append(time.perf_counter() - start)
    times = {name: Sample.of(found) for name, found in seconds.items()}
    return compare(f"treaty check, {classes:,} classes, {revisions} revisions: without a lock", times, "> 0.5x")


def _grown(classes: int, revisions: int) -> str:
    """A module whose first linears have got a field each since they were locked."""
    text = module_text(classes)
    for number in range(revisions):
        head = f"class Linear{number}:\n"
        body = text.partition(head)[2].partition("\n\n")[0]
        text = text.replace(head + body, f"{head}{body}\n    added: int = {number}", 1)
    return text


def _lock_long(folder: Path, revisions: int) -> None:
    """A lock as that many runs of `treaty lock` would have written it: each added one field, deep inside."""
    (module,) = read_modules(["big"], Project(folder))
    lock = Lock("big", name="big_treaty.lock")
    for symbol, schema in module.declared.items():
        lock = lock.add(symbol, _before(schema), uses=_uses(module, symbol, 0))
    for number in range(revisions):
        for symbol, schema in module.declared.items():
            if f"big:Linear{number}" in schema.symbols:
                lock = lock.add(symbol, schema, uses=_uses(module, symbol, revisions))
    (folder / "big_treaty.lock").write_text(lock.to_text())


def _uses(module: Module, symbol: str, revisions: int) -> dict[str, int]:
    reached = [one for one in module.declared[symbol].symbols if one != symbol]
    return {one: 1 + (_number(one) < revisions) for one in reached}


def _number(symbol: str) -> int:
    return int(symbol.lstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:"))


def _before(schema: Schema) -> Schema:
    classes = (
        attrs.evolve(cls, fields=tuple(one for one in cls.fields if one.key != "added")) for cls in schema.classes
    )
    return Schema(schema.root, tuple(classes))


def _restoring(path: Path, cls: Any) -> Callable[[], object]:
    return lambda: restore(path, cls, into="numpy")


def _treaty(root: Path, *arguments: str) -> None:
    command = [str(Path(sys.executable).with_name("treaty")), *arguments]
    done = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stdout}{done.stderr}")
