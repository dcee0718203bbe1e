"""What a killed writer of one file left is removed by the next one; what a live one is writing is not."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
