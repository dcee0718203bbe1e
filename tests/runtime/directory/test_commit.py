"""The manifest is the commit: whatever happens before it, the last committed checkpoint stays."""

import errno
import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.directory.states import Linear, Train, bits, files_of, linear, train
from treaty.runtime import IncompleteCheckpointError
from treaty.runtime._process.forks import open_lock
from treaty.runtime._storage import files as _files
from treaty.runtime.directory import inspect, restore, save, verify
from treaty.runtime.formats.directory import places as _places
from treaty.runtime.formats.directory import read as _read
from treaty.runtime.formats.directory import remote as _remote
from treaty.runtime.formats.directory import write as _write
from treaty.schema import TreatyError


def test_overwriting_replaces_the_whole_and_leaves_nothing_behind(checkpoint: Path) -> None:
    (before,) = checkpoint.glob("data-*")
    save(checkpoint, linear(2, 3))
    assert bits(restore(checkpoint, Linear)) == bits(linear(2, 3))
    (after,) = checkpoint.glob("data-*")
    assert before != after
    assert sorted(os.listdir(checkpoint)) == [after.name, "treaty.json"]


class Stop(Exception):
    pass


STEPS = [
    (_places.Local, "prepare"),
    (_write, "_write_piece"),
    (_write, "_write_pack"),
    (_write, "_complete"),
    (_places.Local, "commit"),
    (_places, "sync_directory"),
    (_files, "write_pieces"),
    (_places.Local, "_clean"),
]


@pytest.mark.parametrize(("owner", "name"), STEPS, ids=[name for _, name in STEPS])
def test_a_failure_at_any_step_keeps_what_was_committed(
    owner: Any, name: str, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, stop)
        with pytest.raises(Stop):
            save(checkpoint, train(2))
        with pytest.raises(Stop):
            save(tmp_path / "new", train(2))
    assert bits(restore(checkpoint, Train)) in (bits(train(1)), bits(train(2)))
    verify(checkpoint)
    if name != "_clean":
        assert bits(restore(checkpoint, Train)) == bits(train(1))
        with pytest.raises(IncompleteCheckpointError):
            inspect(tmp_path / "new")
    save(checkpoint, train(3))
    assert bits(restore(checkpoint, Train)) == bits(train(3))
    assert len(list(checkpoint.glob("data-*"))) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.runtime.directory.states import train
from treaty.runtime.formats.directory import plan as _plan
from treaty.runtime.formats.directory import write as _write
from treaty.runtime.directory import save
_plan.SMALL_BYTES, _plan.CHUNK_BYTES = 64, 256
left = int(sys.argv[2])
real = _write._write_piece
def dying(*args):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*args)
_write._write_piece = dying
save(sys.argv[1], train(2))
"""


def test_a_killed_save_is_not_visible_and_the_next_one_clears_it_away(checkpoint: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(checkpoint), "3"], check=False)
    assert done.returncode == -9
    assert len(list(checkpoint.glob("data-*"))) == 2
    assert bits(restore(checkpoint, Train)) == bits(train(1))
    save(checkpoint, train(3))
    assert len(list(checkpoint.glob("data-*"))) == 1
    assert bits(restore(checkpoint, Train)) == bits(train(3))


LIMITED = """
import resource, signal, sys
from tests.runtime.directory.states import linear
from treaty.runtime.directory import save
from treaty.schema import TreatyError
value = linear(1024, 1024)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    save(sys.argv[1], value)
except TreatyError as error:
    print(error)
"""


def test_a_file_that_cannot_be_written_fails_the_save_and_names_the_leaf(checkpoint: Path) -> None:
    """A real error of the system: no file may be larger than 100,000 bytes."""
    done = subprocess.run([sys.executable, "-c", LIMITED, str(checkpoint)], capture_output=True, text=True, check=True)
    assert done.stdout == f"cannot write $.kernel in {checkpoint}: File too large\n"
    assert bits(restore(checkpoint, Train)) == bits(train(1))
    assert len(list(checkpoint.glob("data-*"))) == 1


def test_two_saves_at_once_are_refused(checkpoint: Path) -> None:
    other = _places.Local(checkpoint)
    other.begin()
    with pytest.raises(TreatyError, match="to be free, got another save that is writing to it"):
        save(checkpoint, train(2))
    other.abandon(None)
    save(checkpoint, train(2))
    assert bits(restore(checkpoint, Train)) == bits(train(2))


def test_without_locks_only_the_previous_data_is_removed(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that no manifest names may belong to a save under way, where the file system cannot tell."""

    def unsupported(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    (before,) = checkpoint.glob("data-*")
    other = checkpoint / "data-0123456789abcdef"
    other.mkdir()
    save(checkpoint, train(2))
    assert bits(restore(checkpoint, Train)) == bits(train(2))
    assert other.exists()
    assert not before.exists()


def test_a_directory_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(TreatyError, match=r"expected a checkpoint or an empty directory, got thesis\.tex"):
        save(tmp_path, train())
    assert [file.name for file in files_of(tmp_path)] == ["thesis.tex"]
    with pytest.raises(TreatyError, match="expected a directory or nothing, got a file"):
        save(tmp_path / "thesis.tex", train())


def test_a_damaged_checkpoint_can_be_overwritten(checkpoint: Path) -> None:
    (checkpoint / "treaty.json").write_bytes(b"{")
    save(checkpoint, train(2))
    assert bits(restore(checkpoint, Train)) == bits(train(2))
    assert len(list(checkpoint.glob("data-*"))) == 1


def test_a_reader_that_is_overtaken_by_a_save_begins_again(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files go away between the manifest and the arrays, and what comes back is the new checkpoint."""
    check = _read.CheckpointReader.check_files
    overtaken: list[bool] = []

    def overtake(self: _read.CheckpointReader, wanted: Any) -> None:
        check(self, wanted)
        if not overtaken:
            overtaken.append(True)
            save(checkpoint, train(2))

    monkeypatch.setattr(_read.CheckpointReader, "check_files", overtake)
    assert bits(restore(checkpoint, Train)) == bits(train(2))


def test_a_checkpoint_can_be_moved_and_copied(checkpoint: Path, tmp_path: Path) -> None:
    checkpoint.rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", tmp_path / "copied")
    assert bits(restore(tmp_path / "copied", Train)) == bits(train(1))


SAVED = """
import sys
from tests.runtime.directory.states import train
from treaty.runtime.formats.directory import plan as _plan
from treaty.runtime.directory import save
vars(_plan).update(SMALL_BYTES=64, CHUNK_BYTES=256)
save(sys.argv[1], train(2))
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_all_is_on_disk_before_the_manifest_names_it(tmp_path: Path) -> None:
    """Every file is fsynced once it is written, and every directory after the last name was entered in it."""
    path, trace = tmp_path / "a" / "b", tmp_path / "trace"
    calls = "trace=fsync,openat,rename,renameat,renameat2,mkdir,mkdirat"
    command = ["strace", "-f", "-y", "-e", calls, "-o", str(trace), sys.executable, "-c", SAVED, str(path)]
    subprocess.run(command, check=True)
    pending: set[str] = set()  # files and directories whose fsync is due
    created: list[str] = []
    for call in trace.read_text().splitlines():
        names = [name for name in re.findall(r'[<"](/[^>"]*)[>"]', call) if name.startswith(str(tmp_path))]
        if "resumed>" in call or not names:
            continue
        if " mkdir" in call:
            pending |= {str(Path(names[0]).parent), names[0]}
            created.append(names[0])
        elif " rename" in call:
            if names[-1].endswith("treaty.json"):
                assert not pending
            else:
                pending.add(names[-1])
            pending.add(str(Path(names[-1]).parent))
            created.append(names[-1])
        elif " openat" in call:
            if "O_CREAT" in call:
                folder = {str(Path(names[0]).parent)} if not names[0].endswith(".tmp") else set()
                pending |= {names[0], *folder}
                created.append(names[0])
        else:
            pending.discard(names[0])
    assert not pending
    assert {str(file) for file in files_of(path)} <= set(created)
    assert len(created) > 20


@pytest.mark.usefixtures("fine_layout")
def test_a_key_value_store_commits_by_a_conditional_write() -> None:
    url = "memory://a/checkpoint"
    with pytest.raises(IncompleteCheckpointError):
        restore(url, Train)
    save(url, train(1))
    assert bits(restore(url, Train)) == bits(train(1))
    late = _remote.Remote(url)
    late.begin()
    save(url, train(2))
    with pytest.raises(TreatyError, match="got another save that finished meanwhile"):
        late.commit("data-0123456789abcdef", b"late", {})
    assert bits(restore(url, Train)) == bits(train(2))
    assert verify(url).leaves == len(inspect(url).leaves)
    kept = inspect(url)
    assert len({key.split(b"/")[0] for key in _remote.Remote(url)._store.list().result()}) == 2
    assert kept.path == url


def test_what_cannot_be_removed_after_the_commit_makes_no_save_fail(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file of somebody else's that looks like a manifest which was not put in place."""
    (checkpoint / ".treaty.json.0123.tmp").touch()
    unlink = Path.unlink

    def refused(file: Path, missing_ok: bool = False) -> None:
        if file.name == ".treaty.json.0123.tmp":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        unlink(file, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        for seed in (2, 3):
            save(checkpoint, train(seed))
            assert bits(restore(checkpoint, Train)) == bits(train(seed))
            assert len(os.listdir(checkpoint)) == 3  # the data of the one before is gone
        assert f"remains of earlier saves in {checkpoint} could not be removed: " in caplog.text
    save(checkpoint, train(4))
    assert len(os.listdir(checkpoint)) == 2


def test_a_directory_that_goes_before_it_is_locked_is_not_the_one_that_is_saved_to(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aside = tmp_path / "aside"

    def open_late(path: Path) -> int:
        if not aside.exists():
            opened = open_lock(path)
            os.rename(path, aside)  # as `remove` does
            return opened
        return open_lock(path)

    monkeypatch.setattr(_places, "open_lock", open_late)
    save(checkpoint, train(3))
    assert bits(restore(checkpoint, Train)) == bits(train(3))
    assert bits(restore(aside, Train)) == bits(train(1))


def test_a_save_to_the_directory_that_took_the_place_meanwhile_is_seen(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks: list[int] = []

    def open_late(path: Path) -> int:
        opened = open_lock(path)
        if not locks:
            os.rename(path, tmp_path / "aside")
            path.mkdir()
            locks.append(os.open(path, os.O_RDONLY))
            fcntl.flock(locks[0], fcntl.LOCK_EX)
        return opened

    monkeypatch.setattr(_places, "open_lock", open_late)
    with pytest.raises(TreatyError, match="got another save that is writing to it"):
        save(checkpoint, train(3))
    os.close(locks[0])
