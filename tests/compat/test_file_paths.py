"""save_to_file and load_from_file on odd paths: the file is whole or as it was before, and nothing hangs."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import flax.serialization
import numpy as np
import pytest

from treaty.runtime import CorruptCheckpointError, serialization

TREE: dict[str, Any] = {"a": np.arange(6.0), "b": [1, "text"]}
DATA = flax.serialization.to_bytes(TREE)
SUFFIXES = ("msgpack", "msgpack.gz", "msgpack.zst")


def tree_of(value: float) -> dict[str, Any]:
    return {"a": np.full(50_000, value), "b": {"c": np.full(3, value)}}


def loaded(path: Any) -> bool:
    found = serialization.load_from_file(TREE, path)
    return np.array_equal(found["a"], TREE["a"]) and found["b"] == TREE["b"]


def test_kinds_of_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("name", "./x/../y/name", Path("z/name"), tmp_path / "ü" / "a b\n'", tmp_path / ("n" * 255)):
        serialization.save_to_file(TREE, path)
        assert Path(path).read_bytes() == DATA
        assert loaded(path)


def test_bytes_are_no_path_as_in_eformer(tmp_path: Path) -> None:
    path: Any = os.fsencode(tmp_path / "x")
    with pytest.raises(TypeError):
        serialization.save_to_file(TREE, path)


def test_a_symlink_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real/file")
    (tmp_path / "new").symlink_to("real/not yet")
    for name, real in (("link", "file"), ("new", "not yet")):
        serialization.save_to_file(TREE, tmp_path / name)
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "real" / real).read_bytes() == DATA


def test_a_directory_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "f").write_bytes(b"kept")
    with pytest.raises(OSError, match="d"):
        serialization.save_to_file(TREE, tmp_path / "d")
    with pytest.raises(OSError, match="d"):
        serialization.load_from_file(TREE, tmp_path / "d")
    with pytest.raises(OSError, match="f"):
        serialization.save_to_file(TREE, tmp_path / "f" / "below")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["d", "f"]
    assert (tmp_path / "f").read_bytes() == b"kept"


def test_a_tree_that_cannot_be_written_leaves_the_file(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        path = tmp_path / f"x.{suffix}"
        serialization.save_to_file(TREE, path)
        before = path.read_bytes()
        with pytest.raises(TypeError):
            serialization.save_to_file({"a": np.zeros(3), "b": object()}, path)
        assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == len(SUFFIXES)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="expected a file, got a pipe or a device"):
        serialization.save_to_file(TREE, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    done = threading.Event()

    def load() -> None:
        with pytest.raises((OSError, CorruptCheckpointError)):
            serialization.load_from_file(TREE, tmp_path / "pipe")
        done.set()

    reader = threading.Thread(target=load, daemon=True)
    reader.start()
    reader.join(20)
    if not done.is_set():  # let the thread go before failing
        os.close(os.open(tmp_path / "pipe", os.O_WRONLY))
    assert done.is_set()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_writers_of_one_path_each_leave_it_whole(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    serialization.save_to_file(tree_of(0.0), path)

    def write(value: float) -> None:
        for _ in range(5):
            serialization.save_to_file(tree_of(value), path)

    def read(_: int) -> bool:
        found = serialization.load_from_file(tree_of(0.0), path)
        return len({*np.unique(found["a"]), *np.unique(found["b"]["c"])}) == 1

    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(write, value) for value in (1.0, 2.0, 3.0)]
        assert all(map(read, range(20)))
        for one in writing:
            one.result()
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


SAVE = """
import sys
import numpy as np
from treaty.runtime import serialization
for _ in range(5):
    serialization.save_to_file({"a": np.full(50_000, float(sys.argv[2])), "b": {"c": np.full(3, 0.0)}}, sys.argv[1])
"""


def test_other_processes_too(tmp_path: Path) -> None:
    path = tmp_path / "x.msgpack"
    save = [sys.executable, "-c", SAVE, str(path)]
    running = [subprocess.Popen([*save, value]) for value in ("1", "2")]
    for process in running:
        assert process.wait(120) == 0
    assert np.unique(serialization.load_from_file(tree_of(0.0), path)["a"]).size == 1


FULL = """
import sys
import numpy as np
from treaty.runtime import serialization
try:
    serialization.save_to_file({"a": np.zeros(2**18), "b": np.random.default_rng(0).random(2**18)}, sys.argv[1])
except OSError as error:
    print(error.errno, error.filename)
"""


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_leaves_the_file(tmp_path: Path, suffix: str) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mounted, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        path = place / f"x.{suffix}"
        serialization.save_to_file(TREE, path)
        done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
        assert done.stdout.split(maxsplit=1) == ["28", f"{path}\n"]
        assert loaded(path)
        assert [one.name for one in place.iterdir()] == [path.name]
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
