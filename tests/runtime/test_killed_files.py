"""What a killed writer of one file left is removed by the next one; what a live one is writing is not."""

import errno
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from treaty.runtime._process.forks import close_lock, try_lock
from treaty.runtime._storage import files as _files
from treaty.runtime._storage import workspace as _workspace
from treaty.runtime._storage.files import replacing

WRITER = """
import sys
from treaty.runtime._storage.files import replacing
with replacing(sys.argv[1]) as file:
    print("writing", flush=True)
    sys.stdin.read()
"""


def writer(path: Path) -> "subprocess.Popen[str]":
    """A process that has begun to write, and goes on when its input ends."""
    started = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "writing\n"
    return started


def write(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        os.write(file, content)


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    path = tmp_path / "run.msgpack"
    with writer(path) as killed:
        killed.send_signal(signal.SIGKILL)
    assert len(os.listdir(tmp_path)) == 1
    write(path, b"new")
    assert os.listdir(tmp_path) == ["run.msgpack"]
    assert path.read_bytes() == b"new"


def test_a_live_writer_keeps_its_file(tmp_path: Path) -> None:
    path = tmp_path / "run.msgpack"
    with writer(path) as live:
        write(path, b"first")
        assert path.read_bytes() == b"first"
        assert len(os.listdir(tmp_path)) == 2
        live.communicate("")
        assert live.returncode == 0
    assert os.listdir(tmp_path) == ["run.msgpack"]
    assert path.read_bytes() == b""


def test_without_locks_a_file_is_written_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treaty.runtime._storage.files.try_lock", lambda descriptor: None)
    write(tmp_path / "run.msgpack", b"new")
    assert os.listdir(tmp_path) == ["run.msgpack"]


def test_a_link_of_the_name_is_neither_followed_nor_removed(tmp_path: Path) -> None:
    path, victim = tmp_path / "run.msgpack", tmp_path / "victim"
    victim.write_bytes(b"mine")
    with writer(path) as killed:
        killed.send_signal(signal.SIGKILL)
    (left,) = [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]
    (tmp_path / left).unlink()
    (tmp_path / left).symlink_to(victim)
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert victim.read_bytes() == b"mine"


def test_a_writer_that_fails_removes_its_own_file_and_not_that_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.msgpack"
    with ExitStack() as second:
        begun: list[int] = []

        def closed(descriptor: int) -> None:
            close_lock(descriptor)
            if not begun:
                begun.append(descriptor)  # at this very moment another begins
                os.write(second.enter_context(replacing(path)), b"second")

        monkeypatch.setattr(_files, "close_lock", closed)
        with pytest.raises(ZeroDivisionError), replacing(path):
            raise ZeroDivisionError
        assert begun
    assert path.read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["run.msgpack"]


def test_what_is_about_to_be_taken_for_a_dead_writers_file_is_left_to_who_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other has locked the new file before its writer could."""
    path = tmp_path / "run.msgpack"
    held: list[str] = []

    def late(descriptor: int) -> bool | None:
        if held:
            return try_lock(descriptor)
        held.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        return False

    monkeypatch.setattr(_files, "try_lock", late)
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == sorted(["run.msgpack", os.path.basename(held[0])])


PIPES = """
import os, sys
from pathlib import Path
from treaty.runtime._storage.files import replacing
from treaty.runtime._storage.workspace import workspace
place = Path(sys.argv[1])
try:
    if sys.argv[2] == "file":
        with replacing(place) as file:
            os.write(file, b"new")
    else:
        with workspace(place):
            pass
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize("what", ["file", "workspace"])
def test_a_pipe_of_the_name_makes_no_save_wait(what: str, tmp_path: Path) -> None:
    path = tmp_path / "run.msgpack"
    with writer(path) as killed:
        killed.send_signal(signal.SIGKILL)
    (left,) = tmp_path.iterdir()
    left.unlink()
    if what == "file":
        os.mkfifo(left)
    else:
        _workspace._folder(path).mkdir()
        os.mkfifo(_workspace._folder(path) / "lock")
    command = [sys.executable, "-c", PIPES, str(path), what]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    assert done.stdout == ("" if what == "file" else f"{os.strerror(errno.ENXIO)}\n")
    assert what == "workspace" or path.read_bytes() == b"new"


@pytest.mark.parametrize("what", ["directory", "file"])
def test_a_file_system_that_syncs_no_directories_is_one_to_save_to(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}") == (what == "directory"):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    if what == "directory":
        write(tmp_path / "run.msgpack", b"new")
        assert (tmp_path / "run.msgpack").read_bytes() == b"new"
    else:
        with pytest.raises(OSError, match="Invalid argument"):
            write(tmp_path / "run.msgpack", b"new")
