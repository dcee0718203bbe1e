"""One error for every storage that fails, whatever the format: a TreatyError and an OSError, with the number and the place."""

import errno
import os
import pickle
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.places import NEW
from tests.faults.saver import How, Saver
from tests.faults.states import Run, run
from treaty.runtime import StorageError, restore, save, save_async, to_state_dict
from treaty.runtime._convert.convert import convert
from treaty.runtime._storage.files import replacing
from treaty.runtime.formats import npz, orbax
from treaty.runtime.leaves import tree_serialize_leaves
from treaty.schema import TreatyError

Write = Callable[[Path, Run], object]
WRITERS: dict[str, Write] = {
    "x.msgpack": save,
    "x.msgpack.gz": save,
    "x.msgpack.zst": save,
    "x.safetensors": save,
    "shards.safetensors": lambda path, state: save(path, state, max_shard_bytes=100_000),
    "x.npz": npz.write,
    "orbax": orbax.write,
    "eformer": lambda path, state: tree_serialize_leaves(path, to_state_dict(state)),
    "directory": save,
    "background": lambda path, state: save_async(path, state).result(),
}


@contextmanager
def failing(number: int, path: Path) -> Iterator[None]:
    with pytest.raises(StorageError) as told:
        yield
    error = told.value
    assert isinstance(error, TreatyError)
    assert isinstance(error, OSError)
    assert (error.errno, error.strerror) == (number, os.strerror(number))
    assert str(error).startswith("cannot write "), error
    assert str(path.parent) in str(error)
    assert path.stem in str(error)
    assert os.strerror(number) in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.errno, again.filename) == (str(error), number, error.filename)


@pytest.mark.parametrize("room", [0, 1, 8, 64])
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk(name: str, room: int, full_disk: Path) -> None:
    """Whether there is room for nothing, for the first names, or for nearly all."""
    page = os.sysconf("SC_PAGESIZE")
    found = os.statvfs(full_disk)
    (full_disk / "filler").write_bytes(bytes(max(0, found.f_bavail * found.f_bsize - room * page)))
    with failing(errno.ENOSPC, full_disk / name):
        WRITERS[name](full_disk / name, run(1, d_in=16 * 1024))
    assert not [*full_disk.rglob(".*.tmp"), *full_disk.rglob(".*.part")]


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_cannot_be(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"^cannot write .*: Not a directory") as told:
        WRITERS[name](tmp_path / "file" / name, run(1))
    assert told.value.errno == errno.ENOTDIR


def test_a_conversion_onto_a_full_disk(tmp_path: Path, full_disk: Path) -> None:
    save(tmp_path / "x.msgpack", run(1, d_in=16 * 1024))
    for name in ("y.msgpack", "y.safetensors", "y.npz", "directory"):
        with pytest.raises(StorageError, match=r"cannot write .*No space left on device"):
            convert(tmp_path / "x.msgpack", full_disk / name)
    assert os.listdir(full_disk) == []


def test_the_errors_that_python_has_for_numbers_stay(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"^cannot write .*/missing/x\.msgpack: No such file or directory$"
    ) as told:
        save(tmp_path / "missing" / "x.msgpack", run(1))
    assert isinstance(told.value, StorageError)
    assert isinstance(told.value.__cause__, FileNotFoundError)
    (tmp_path / "x.msgpack").mkdir()
    with pytest.raises(IsADirectoryError):
        save(tmp_path / "x.msgpack", run(1))


@pytest.mark.parametrize("name", ["x.npz", "x.msgpack.gz", "x.msgpack.zst"])
def test_the_first_failure_is_told_and_not_what_fails_in_its_wake(name: str, tmp_path: Path) -> None:
    """An archive that is half written cannot be closed, and a compressor wants to write its end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with failing(errno.EFBIG, tmp_path / name):
            WRITERS[name](tmp_path / name, run(1, d_in=16 * 1024))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == []


def fail(now: Exception, before: OSError | None = None) -> None:
    try:
        if before is not None:
            raise before
    finally:
        raise now


def test_what_was_handled_before_a_save_is_not_why_it_failed(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="before"), replacing(tmp_path / "x"):
        fail(ValueError("now"), OSError(errno.EIO, "before"))
    try:
        fail(OSError(errno.EIO, "before"))
    except OSError:
        with pytest.raises(ValueError, match="now"), replacing(tmp_path / "x"):
            fail(ValueError("now"))


@pytest.mark.parametrize("how", ["save", "save_async", "msgpack"])
@pytest.mark.parametrize("fault", ["openat:error=EIO:when=1+", "fsync:error=EIO:when=1", "rename:error=EIO:when=1+"])
def test_an_error_of_the_disk_is_told_as_it_was(how: How, fault: str, saver: Saver, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    path = tmp_path / ("run.msgpack" if how == "msgpack" else "run")
    outcome = saver.save_with_errors(path, NEW, fault, how=how)
    assert outcome.ended == "failed"
    assert outcome.message.startswith("StorageError: cannot write ")
    assert str(path) in outcome.message
    assert "Input/output error" in outcome.message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_what_may_not_be_read(tmp_path: Path) -> None:
    save(tmp_path / "x.msgpack", run(1))
    (tmp_path / "x.msgpack").chmod(0)
    with pytest.raises(PermissionError, match=r"^cannot read .*: Permission denied$") as told:
        restore(tmp_path / "x.msgpack", Run)
    assert isinstance(told.value, StorageError)


AS_NOBODY = """
import os, sys
from tests.faults.states import Run
from treaty.runtime import StorageError, inspect, restore, verify
from treaty.runtime.formats.eformer import source  # while all modules can be read
from treaty.runtime.formats.orbax import source
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for path in sys.argv[1:]:
    for read in (lambda path: restore(path, Run), inspect, verify):
        try:
            read(path)
            print("nothing")
        except StorageError as error:
            print(isinstance(error, PermissionError), error)
        except BaseException as error:
            print(repr(error))
"""


def test_what_others_may_not_read_is_one_error_of_every_reader() -> None:
    locked = ["directory", "directory/treaty.json", "orbax", "orbax/_METADATA", "eformer", "x.npz"]
    with tempfile.TemporaryDirectory() as folder:  # not pytest's, which only its user may enter
        os.chmod(folder, 0o755)
        paths = []
        for number, one in enumerate(locked):
            name = one.partition("/")[0]
            paths.append(Path(folder, str(number), name))
            paths[-1].parent.mkdir()
            WRITERS[name](paths[-1], run(1))
            (paths[-1].parent / one).chmod(0)
        command = [sys.executable, "-c", AS_NOBODY, *map(str, paths)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        for path in paths:
            path.chmod(0o700)
    said = done.stdout.splitlines()
    assert len(said) == 3 * len(locked)
    for number, line in enumerate(said):
        assert line.startswith(f"True cannot read {paths[number // 3]}"), said
        assert line.endswith(": Permission denied")
