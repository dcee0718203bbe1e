"""Files that are whole or not there, whatever happens to the disk or to the process that writes."""

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32

from tests.runtime.equality import same
from treaty.generator import load
from treaty.runtime import CorruptCheckpointError, IncompleteCheckpointError, StateMismatchError, restore, save
from treaty.runtime._storage import files as _files
from treaty.schema import TreatyError, state

SUFFIXES = [".msgpack", ".msgpack.gz", ".msgpack.zst"]
ROOT = Path(__file__).parents[2]


@state
class Layer:
    kernel: Float32[np.ndarray, "a b"]


@state
class Model:
    layers: list[Layer]


load(Model)


def model(fill: float, layers: int = 12, size: int = 64) -> Model:
    """Of noise, so that compressed files are large too."""
    noise = np.random.default_rng(int(fill)).standard_normal((layers, size, size)).astype(np.float32)
    return Model(layers=[Layer(kernel=one) for one in noise])


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints" / f"model{request.param}"


def holds_whole(path: Path, expected: Model) -> None:
    """The file has this state, and nothing else is beside it."""
    same(restore(path, Model, into="numpy"), expected)
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_file_comes_back_and_can_be_replaced(path: Path) -> None:
    for fill in (1, 2):
        save(path, model(fill))
        holds_whole(path, model(fill))


@pytest.mark.parametrize(
    "given", [str, Path, os.fsencode, lambda path: Pathlike(path)], ids=["str", "Path", "bytes", "PathLike"]
)
def test_any_form_of_path_will_do(path: Path, given: Callable[[Path], Any]) -> None:
    save(given(path), model(1))
    same(restore(given(path), Model, into="numpy"), model(1))


class Pathlike:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


def test_names_as_long_as_the_file_system_takes(path: Path) -> None:
    long = path.with_name("é" * ((255 - len(path.name)) // 2) + path.name)
    save(long, model(1))
    holds_whole(long, model(1))


def test_equal_states_give_equal_files(path: Path) -> None:
    save(path, model(1))
    first = path.read_bytes()
    save(path, model(1))
    assert path.read_bytes() == first


def test_a_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / f"latest{''.join(path.suffixes)}"
    link.symlink_to(path)
    for fill in (1, 2):  # the first time, it leads nowhere yet
        save(link, model(fill))
        assert link.is_symlink()
        holds_whole(path, model(fill))


def test_a_map_outlives_the_file_it_is_of(tmp_path: Path) -> None:
    path = tmp_path / "model.msgpack"
    save(path, model(1))
    restored = restore(path, Model, into="numpy")
    save(path, model(2))
    path.unlink()
    same(restored, model(1))


@pytest.mark.parametrize("name", ["model.msgpack.bz2", "model.npz/", "model.gz", "model.pt", "model.msgpack/"])
def test_a_path_that_names_another_format_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        TreatyError,
        match=r"^expected \.safetensors, \.npz, \.msgpack, \.msgpack\.gz, \.msgpack\.zst or a directory, got '",
    ):
        save(f"{tmp_path}/{name}", model(1))
    assert not list(tmp_path.iterdir())


def test_missing_directories_and_files_are_the_systems_own_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        save(tmp_path / "missing" / "model.msgpack", model(1))
    with pytest.raises(FileNotFoundError):
        restore(tmp_path / "missing.msgpack", Model)
    with pytest.raises(IncompleteCheckpointError, match=r"^expected a checkpoint, got no treaty\.json at "):
        restore(tmp_path, Model)
    (tmp_path / "directory.msgpack").mkdir()
    with pytest.raises(IsADirectoryError):
        save(tmp_path / "directory.msgpack", model(1))
    assert [one.name for one in tmp_path.iterdir()] == ["directory.msgpack"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written(path: Path) -> None:
    path.parent.chmod(0o500)
    with pytest.raises(PermissionError):
        save(path, model(1))


def test_one_writev_that_writes_less_than_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As every system does beyond 2 GiB."""
    writev: Any = os.writev

    def stingy(descriptor: int, buffers: list[Any]) -> int:
        data = b"".join(buffers)
        return os.write(descriptor, data[: len(data) * 2 // 3])

    monkeypatch.setattr(os, "writev", stingy)
    save(path, model(1))
    monkeypatch.setattr(os, "writev", writev)
    holds_whole(path, model(1))


def test_a_file_over_the_limit_leaves_the_previous_one(path: Path) -> None:
    save(path, model(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError) as told:  # noqa: PT011
            save(path, model(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert told.value.errno == errno.EFBIG
    holds_whole(path, model(1))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_read_only(small_disk: Path) -> None:
    path = small_disk / "model.msgpack"
    save(path, model(1))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(OSError) as told:  # noqa: PT011
        save(path, model(2))
    assert told.value.errno == errno.EROFS
    holds_whole(path, model(1))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_leaves_the_previous_file(small_disk: Path, suffix: str) -> None:
    path = small_disk / f"model{suffix}"
    save(path, model(1, layers=20))  # 320 KiB: a second one has no room beside it
    with pytest.raises(OSError) as told:  # noqa: PT011
        save(path, model(2, layers=20))
    assert told.value.errno == errno.ENOSPC
    holds_whole(path, model(1, layers=20))


def test_an_error_at_any_step_leaves_the_previous_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever call of the system fails: the new file is gone without a trace, and the error is the system's own."""
    save(path, model(1))
    steps = ["open", "posix_fallocate", "writev", "fsync", "replace"]
    for step in [one for one in steps if path.suffix == ".msgpack" or one not in ("posix_fallocate", "writev")]:
        with monkeypatch.context() as patch:
            patch.setattr(os, step, failing)
            with pytest.raises(OSError, match="no luck") as told:
                save(path, model(2))
        assert told.value.errno == errno.EIO
        holds_whole(path, model(1))


def failing(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, "no luck")


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    roots = os.pathsep.join(str(ROOT / one) for one in ("", "schema", "generator", "generated", "runtime"))
    environment = {**os.environ, "PYTHONPATH": roots, "JAX_PLATFORMS": "cpu"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)


def test_a_kill_at_any_step_and_two_writers_at_once(tmp_path: Path) -> None:
    done = run(sys.executable, "-m", "tests.attacks.crashes", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed at 1" in done.stdout


SAVE_ALL = """
import sys
from tests.runtime.test_files import SUFFIXES, model, save
for suffix in SUFFIXES:
    try:
        save(sys.argv[1] + "/model" + suffix, model(2))
    except OSError as error:
        print(error.errno, error.strerror)
"""


def test_a_disk_that_fails_to_sync_leaves_the_previous_file(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None or run(strace, "-qq", "-e", "trace=none", "true").returncode:
        pytest.skip("needs strace, and the right to trace")
    for suffix in SUFFIXES:
        save(tmp_path / f"model{suffix}", model(1))
    inject = ["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:error=EIO"]
    done = run(strace, *inject, sys.executable, "-c", SAVE_ALL, str(tmp_path))
    assert done.stdout == "5 Input/output error\n" * 3, done.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(f"model{suffix}" for suffix in SUFFIXES)
    for suffix in SUFFIXES:
        same(restore(tmp_path / f"model{suffix}", Model, into="numpy"), model(1))


def test_errors_of_the_disk_are_not_taken_for_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.msgpack.gz"
    save(path, model(1))
    monkeypatch.setattr(_files, "_decompressed", failing)
    with pytest.raises(OSError, match="no luck"):
        restore(path, Model)


@pytest.mark.parametrize("suffix", [".msgpack.gz", ".msgpack.zst"])
def test_a_compressed_file_cut_anywhere_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    save(path, model(1, layers=1, size=3))
    data = path.read_bytes()
    for end in range(len(data)):
        path.write_bytes(data[:end])
        with pytest.raises((CorruptCheckpointError, StateMismatchError)):  # one byte alone is a number
            restore(path, Model)


@pytest.mark.parametrize("suffix", [".msgpack.gz", ".msgpack.zst"])
def test_every_flipped_bit_of_a_compressed_file_is_refused_or_sound(tmp_path: Path, suffix: str) -> None:
    path, changed = tmp_path / f"model{suffix}", 0
    save(path, model(1, layers=1, size=3))
    data = bytearray(path.read_bytes())
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        data[bit // 8] ^= 1 << bit % 8
        try:
            restored = restore(path, Model, into="numpy")
        except (CorruptCheckpointError, StateMismatchError):
            continue
        changed += restored.layers[0].kernel.tobytes() != model(1, layers=1, size=3).layers[0].kernel.tobytes()
    assert not changed  # both formats have checksums of their contents
