"""A checkpoint is replaced while it is read: what comes back is one of the two, whole, in every format, for every reader."""

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from jaxtyping import Float32

from tests.report.pages import data_of
from treaty.generator import load
from treaty.runtime import from_state_dict, leaves, report, restore
from treaty.runtime._convert.convert import convert
from treaty.runtime._eformer import load as _leaves_load
from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime._storage.open_file import OpenFile
from treaty.runtime._storage.overtaken import TRIES
from treaty.runtime.commands.checkpoints import inspect
from treaty.runtime.commands.conversion import diff
from treaty.runtime.directory import verify
from treaty.runtime.formats import msgpack, npz, orbax
from treaty.runtime.formats import safetensors as safetensors_format
from treaty.runtime.formats.directory import plan as _plan
from treaty.runtime.formats.directory import read as directory_read
from treaty.runtime.formats.eformer import source as _leaves_tree
from treaty.runtime.formats.orbax import read as _orbax_read
from treaty.runtime.formats.orbax.source import known_orbax
from treaty.runtime.formats.safetensors import files as _safetensors_files
from treaty.schema import TreatyError, state
from treaty.schema.keymap import KeyMap, Rule

Replace = Callable[[], None]


@state
class Pair:
    one: Float32[np.ndarray, "n"]
    two: Float32[np.ndarray, "n"]


load(Pair)
SAME = KeyMap((Rule("one", "one"), Rule("two", "two")))
# What is called for each array or shard. "in place" is np.savez, which writes a file anew, and "leaves" eformer's way.
STEPS = {
    "treaty": (directory_read.CheckpointReader, "_fill"),
    "shards": (_safetensors_files, "_read_file"),
    "in place.npz": (OpenFile, "fill"),
    "compressed.npz": (OpenFile, "stream"),
    "orbax": (_orbax_read, "_result"),
    "eformer": (_leaves_tree, "naming"),
    "leaves": (_leaves_tree, "naming"),
}


def write(path: Path, name: str, step: int) -> None:
    """A checkpoint of arrays that hold nothing but the step, in place of the one before."""
    tree: dict[str, Any] = {key: np.full(20_000, step, np.float32) for key in ("one", "two")}
    if name == "shards":
        safetensors_format.dump(path, tree, max_shard_bytes=100_000)
    elif name in ("in place.npz", "compressed.npz"):
        (np.savez if name == "in place.npz" else np.savez_compressed)(path, **tree)
        os.utime(path, ns=(step, step))  # or two writes within a tick of the clock could look alike
    elif name == "leaves":
        leaves.tree_serialize_leaves(path, tree)
    else:
        source = path.parent / f"source-{step}.msgpack"
        msgpack.write_file(source, tree)
        convert(source, path, to_format=name, replace=True)
        source.unlink()


def path_of(folder: Path, name: str) -> Path:
    return folder / {"shards": "x.safetensors"}.get(name, "x.npz" if name.endswith("npz") else "x")


class Overtaker:
    """Replaces a checkpoint before an array of it is read, as often as it is told."""

    def __init__(self, path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.name, self.patch = path, name, monkeypatch
        self.left, self.step, self.calls = 0, 1, 0
        owner, function = STEPS[name]
        real = getattr(owner, function)

        def overtaken(*args: Any, **options: Any) -> Any:
            self.calls += 1
            if self.left and self.calls % 2 == 0:
                with monkeypatch.context() as patch:
                    patch.setattr(owner, function, real)
                    self.left, self.step = self.left - 1, self.step + 1
                    write(path, name, self.step)
            return real(*args, **options)

        monkeypatch.setattr(_plan, "SMALL_BYTES", 64)  # of a directory: or both arrays would be in one file
        write(path, name, self.step)
        monkeypatch.setattr(owner, function, overtaken)


@pytest.fixture(params=STEPS)
def overtaker(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Overtaker:
    return Overtaker(path_of(tmp_path, request.param), request.param, monkeypatch)


def one_step(tree: Any) -> int:
    pair = tree if isinstance(tree, dict) else {"one": tree.one, "two": tree.two}
    assert pair.keys() == {"one", "two"}
    (step,) = {int(number) for array in pair.values() for number in np.unique(np.asarray(array))}
    return step


def by_restore(path: Path) -> int:
    return one_step(restore(path, Pair))


def by_keymap(path: Path) -> int:
    return one_step(restore(path, Pair, keymap=SAME, into="numpy"))


def by_convert(path: Path) -> int:
    target = path.parent / "converted.msgpack"
    convert(path, target, replace=True)
    return one_step(msgpack.read_file(target))


def by_diff(path: Path) -> int:
    """Compared with the step that it will be."""
    expected = path.parent / "expected.msgpack"
    msgpack.write_file(expected, {key: np.full(20_000, 2, np.float32) for key in ("one", "two")})
    done = CliRunner().invoke(diff, [str(path), str(expected)])
    assert done.output == "equal\n", done.output
    return 2


def by_report(path: Path) -> int:
    (step,) = {leaf["stats"][end] for leaf in data_of(report(path))["leaves"] for end in ("min", "max")}
    return int(step)


@pytest.mark.parametrize("read", [by_restore, by_keymap, by_convert, by_diff, by_report])
def test_a_reader_who_is_overtaken_begins_again(read: Callable[[Path], int], overtaker: Overtaker) -> None:
    overtaker.left = 1
    assert read(overtaker.path) == 2
    assert overtaker.step == 2


def test_a_reader_who_is_always_overtaken_gives_up_and_says_why(overtaker: Overtaker) -> None:
    overtaker.left = 1000
    with pytest.raises(TreatyError) as caught:
        restore(overtaker.path, Pair)
    assert str(caught.value) == (
        f"expected a checkpoint that stays, got {TRIES} replacements while it was read at {overtaker.path}; "
        "save to a path of its own for each step, or restore when saves pause"
    )
    assert overtaker.step >= TRIES


@pytest.mark.parametrize("name", ["orbax", "in place.npz", "shards", "leaves"])
def test_the_functions_of_a_format_begin_again_too(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STEPS, "leaves", (_leaves_load, "naming"))
    overtaker = Overtaker(path_of(tmp_path, name), name, monkeypatch)
    overtaker.left = 1
    read: dict[str, Callable[[Path], Any]] = {
        "orbax": lambda path: orbax.restore(path, Pair),
        "in place.npz": lambda path: npz.restore(path, Pair),
        "shards": lambda path: safetensors_format.load(path)[0],
        "leaves": lambda path: leaves.tree_deserialize_leaves(path, None),
    }
    assert one_step(read[name](overtaker.path)) == 2
    assert overtaker.step == 2


def test_verify_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overtaker = Overtaker(tmp_path / "x", "treaty", monkeypatch)
    overtaker.left = 1
    assert verify(overtaker.path).leaves == 2
    assert overtaker.step == 2


def test_inspect_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overtaker = Overtaker(tmp_path / "x.safetensors", "shards", monkeypatch)
    overtaker.left = 1
    done = CliRunner().invoke(inspect, [str(overtaker.path)])
    assert done.exit_code == 0, done.output
    assert overtaker.step == 2


@pytest.mark.parametrize("name", ["x.msgpack", "x.safetensors", "x.npz"])
def test_a_file_is_read_whole_however_often_it_is_replaced(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader keeps the one that it opened."""
    path, steps = tmp_path / name, iter(range(2, 100))

    def put(step: int) -> None:
        source = tmp_path / "source.msgpack"
        msgpack.write_file(source, {key: np.full(8, step, np.float32) for key in ("one", "two")})
        convert(source, path, replace=True)

    def overtaken(*args: Any, **options: Any) -> Any:
        put(next(steps))
        return from_state_dict(*args, **options)

    put(1)
    monkeypatch.setattr("treaty.runtime._restore.pipeline.from_state_dict", overtaken)
    assert one_step(restore(path, Pair, into="numpy", max_bytes_in_flight=10**6)) == 1
    assert next(steps) == 3


@pytest.mark.parametrize("name", STEPS)
def test_damage_that_stays_is_told_at_once(name: str, tmp_path: Path) -> None:
    path = path_of(tmp_path, name)
    write(path, name, 1)
    files = [path] if path.is_file() else sorted((path if path.is_dir() else tmp_path).rglob("*"))
    largest = max((file for file in files if file.is_file()), key=lambda file: file.stat().st_size)
    os.truncate(largest, largest.stat().st_size // 2)
    with pytest.raises(TreatyError) as caught:
        restore(path, Pair)
    assert "replacements" not in str(caught.value)


def test_a_directory_that_takes_the_place_with_the_same_number_is_another(tmp_path: Path) -> None:
    """File systems give the number of a removed directory to the next one, unless somebody holds it."""
    write(tmp_path / "x", "orbax", 1)
    look = partial(known_orbax, str(tmp_path / "x"))
    with ExitStack() as held:
        known = look(held)
        assert known.is_whole()
        for _ in range(3):
            shutil.rmtree(tmp_path / "x")
            shutil.copytree(_made(tmp_path), tmp_path / "x")
        assert look(held).by != known.by
        assert not known.is_whole()


def _made(folder: Path) -> Path:
    if not (folder / "made").exists():
        write(folder / "made", "orbax", 2)
    return folder / "made"


def test_a_file_that_becomes_shorter_is_damage_and_no_crash(tmp_path: Path) -> None:
    """np.savez opens a file anew in its place; a map of it would end the process at the next look."""
    write(tmp_path / "x.npz", "in place.npz", 1)
    array = npz.read_tree(tmp_path / "x.npz")["two"]
    os.truncate(tmp_path / "x.npz", 1000)
    with pytest.raises(
        CorruptCheckpointError, match=r"expected .* bytes more, got the end of the file at 'two\.npy' in"
    ):
        array.read()
