"""One name, one checkpoint: shards, index and single file replace each other at once, whatever interrupts a save."""

import errno
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from tests.faults.places import some
from treaty.runtime import CorruptCheckpointError, remove
from treaty.runtime._storage.workspace import workspace
from treaty.runtime.formats import safetensors as format
from treaty.runtime.formats.safetensors.members import under_prefix
from treaty.schema import TreatyError

REPLACING = ("safetensors/files.py", "safetensors/members.py")
KINDS = {"shards": 64, "single": None}


def tree(step: int) -> dict[str, Any]:
    return {name: np.full(16, step, np.float32) for name in "abcde"}


def save(path: Path, step: int, kind: str = "shards") -> None:
    format.dump(path, tree(step), max_shard_bytes=KINDS[kind])


def found(path: Path) -> int:
    """The step of the one save that is there, also by the folder, and by what Hugging Face's loaders do."""
    loaded, _ = format.load(path)
    (step,) = {int(one) for array in loaded.values() for one in array}
    assert loaded.keys() == tree(step).keys()
    return step


def files(path: Path) -> int:
    return len(list(path.parent.iterdir()))


class Interrupted(BaseException):
    pass


def lines_of(call: Callable[[], object], stop_at: int = 0) -> int:
    """How many lines of the code that replaces files a call takes; at one of them it is ended by an exception.

    In a thread of its own: the main thread has such work done by a helper, in which nothing is interrupted.
    """
    lines = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(REPLACING):
            return None
        if event == "line":
            lines += 1
            if lines == stop_at:
                raise Interrupted
        return trace

    def traced() -> None:
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(None)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(traced).result()
    return lines


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a lock that the collector closes
@pytest.mark.parametrize("new", KINDS)
@pytest.mark.parametrize("old", KINDS)
def test_an_exception_at_any_line_leaves_the_old_or_the_new_one(old: str, new: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(path, 1, old)
    lines = lines_of(lambda: save(path, 2, new))
    seen = set()
    for line in some(lines, 40):
        save(path, 1, old)
        try:
            lines_of(lambda: save(path, 2, new), stop_at=line)
        except Interrupted:
            seen.add(found(path))
        save(path, 3, new)
        assert found(path) == 3
        assert files(path) == (6 if new == "shards" else 1), (line, sorted(os.listdir(tmp_path)))
    assert seen >= {1}


def test_two_saves_of_shards_at_once_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(path, 1)
    with workspace(path), pytest.raises(TreatyError, match="to be free, got another save that is writing to it"):
        save(path, 2)
    assert found(path) == 1
    save(path, 2)
    assert (found(path), files(path)) == (2, 6)


def test_a_single_file_is_saved_while_another_save_writes_shards(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with workspace(path) as space:
        (space.folder / "theirs").touch()
        save(path, 2, "single")
        assert (space.folder / "theirs").exists()
    assert (found(path), files(path)) == (2, 1)


def test_without_locks_only_shards_that_the_index_named_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may belong to a save under way, where the file system cannot tell."""

    def unsupported(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    path = tmp_path / "model.safetensors"
    save(path, 1)
    shutil.copytree(tmp_path, tmp_path / "copy")
    save(path, 2)
    for shard in (tmp_path / "copy").glob("model-*"):
        shutil.copy(shard, tmp_path)
    shutil.rmtree(tmp_path / "copy")
    monkeypatch.setattr(fcntl, "flock", unsupported)
    save(path, 3)
    assert (found(path), files(path)) == (3, 6 + 5)
    monkeypatch.undo()
    save(path, 4, "single")
    assert (found(path), files(path)) == (4, 1)


@pytest.mark.parametrize("new", KINDS)
@pytest.mark.parametrize("clock", [-(10**9), 0])
def test_of_an_index_and_a_single_file_the_later_save_counts(clock: int, new: str, tmp_path: Path) -> None:
    """What a killed save leaves: both are there. Neither ticks nor clocks that go back decide."""
    path, index = tmp_path / "model.safetensors", tmp_path / "model.safetensors.index.json"
    old = "shards" if new == "single" else "single"
    save(path, 1, old)
    for one in tmp_path.iterdir():
        later = one.stat().st_mtime_ns - clock
        os.utime(one, ns=(later, later))
    shutil.copytree(tmp_path, tmp_path / "copy")
    save(path, 2, new)
    for one in (tmp_path / "copy").iterdir():
        shutil.copy2(one, tmp_path)
    shutil.rmtree(tmp_path / "copy")
    assert path.exists()
    assert index.exists()
    assert found(path) == 2
    assert {int(array[0]) for array in restore_folder(tmp_path).values()} == {2}
    save(path, 3, new)
    assert (found(path), files(path)) == (3, 1 if new == "single" else 6)


def restore_folder(folder: Path) -> dict[str, Any]:
    from treaty.runtime.formats import table as formats

    assert formats.format_at(str(folder)).name == "safetensors"
    return dict(formats.reading(folder, lambda source: source.settled()))


def test_of_files_of_others_the_one_that_is_asked_for_is_read(tmp_path: Path) -> None:
    single, index = tmp_path / "model.safetensors", tmp_path / "model.safetensors.index.json"
    safetensors.numpy.save_file({"a": np.ones(2)}, single)
    safetensors.numpy.save_file({"a": np.zeros(2)}, tmp_path / "model-00001-of-00001.safetensors")
    index.write_text(json.dumps({"weight_map": {"a": "model-00001-of-00001.safetensors"}}))
    assert format.load(single)[0]["a"][0] == 1
    assert format.load(index)[0]["a"][0] == 0
    assert restore_folder(tmp_path)["a"][0] == 0


def test_shards_of_two_saves_are_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(path, 1)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    shutil.copytree(tmp_path, tmp_path / "old")
    save(path, 2)
    mixed = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    mixed["weight_map"]["a"] = index["weight_map"]["a"]
    shutil.copy(tmp_path / "old" / index["weight_map"]["a"], tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(mixed))
    with pytest.raises(CorruptCheckpointError, match=r"expected shards of one save, got 'model-.*' of another, in "):
        format.load(path)


def test_shards_of_earlier_versions_are_read_and_replaced(tmp_path: Path) -> None:
    weight_map = {}
    for number, name in enumerate("abcde", 1):
        weight_map[name] = f"model-{number:05d}-of-00005.safetensors"
        safetensors.numpy.save_file({name: tree(1)[name]}, tmp_path / weight_map[name], metadata={"format": "pt"})
    text = json.dumps({"metadata": {"total_size": 320, "format": "pt"}, "weight_map": weight_map})
    (tmp_path / "model.safetensors.index.json").write_text(text)
    assert found(tmp_path / "model.safetensors") == 1
    save(tmp_path / "model.safetensors", 2)
    assert (found(tmp_path / "model.safetensors"), files(tmp_path / "model.safetensors")) == (2, 6)


def test_a_checkpoint_whose_name_looks_like_a_save_is_not_replaced_by_its_neighbour(tmp_path: Path) -> None:
    theirs = tmp_path / "model-0123456789ab-00001-of-00001.safetensors"
    safetensors.numpy.save_file({"a": np.ones(2)}, theirs)
    for neighbour in ("model-0123456789ab", "model-2"):
        save(tmp_path / f"{neighbour}.safetensors", 5)
    save(tmp_path / "model.safetensors", 1)
    save(tmp_path / "model.safetensors", 2, "single")
    assert [one.name for one in under_prefix(str(tmp_path / "model"))] == ["model.safetensors"]
    assert found(tmp_path / "model-2.safetensors") == 5
    assert found(tmp_path / "model-0123456789ab.safetensors") == 5


def test_the_names_that_are_kept_for_the_index_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TreatyError, match=r"expected other metadata than 'treaty\.save'"):
        format.dump(tmp_path / "m.safetensors", tree(1), metadata={"treaty.save": "x"})


def test_a_link_where_a_save_would_work_is_refused(tmp_path: Path) -> None:
    path, precious = tmp_path / "model.safetensors", tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").touch()
    with workspace(path) as space:
        folder = space.folder
    folder.symlink_to(precious)
    with pytest.raises(TreatyError, match="expected a folder to work in, got a link at"):
        save(path, 1)
    assert os.listdir(precious) == ["thesis.tex"]


def test_restore_of_a_folder_does_not_take_a_killed_saves_shard(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(path, 1)
    (tmp_path / "model.safetensors.index.json").unlink()
    format.dump(path.with_name("other.safetensors"), tree(2))
    assert {int(array[0]) for array in restore_folder(tmp_path).values()} == {2}


@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_two_writers_never_leave_a_mixture(locks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    if not locks:
        monkeypatch.setattr(fcntl, "flock", unsupported)
    path = tmp_path / "model.safetensors"
    save(path, 0)

    def write(first: int) -> int:
        refused = 0
        for step in range(first, first + 30, 2):
            try:
                save(path, step, "single" if locks and step % 5 == 0 else "shards")
            except TreatyError as error:
                if "to be free, got another save that is writing to it" not in str(error):
                    raise
                refused += 1
            found(path)
        return refused

    with ThreadPoolExecutor(2) as pool:
        refused = sum(pool.map(write, [1, 2]))
    assert found(path) > 0
    assert locks or not refused
    monkeypatch.undo()
    save(path, 100)
    assert (found(path), files(path)) == (100, 6)


@pytest.mark.parametrize("newer", KINDS)
def test_no_older_checkpoint_comes_back_while_one_is_removed(
    newer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are there where a save was killed before it had removed what it replaces."""
    path = tmp_path / "model.safetensors"
    save(path, 1, "single" if newer == "shards" else "shards")
    shutil.copytree(tmp_path, tmp_path.with_name(f"kept-{newer}"))
    save(path, 2, newer)
    shutil.copytree(tmp_path.with_name(f"kept-{newer}"), tmp_path, dirs_exist_ok=True)
    assert found(path) == 2
    unlink = Path.unlink

    def unlinked_once(file: Path, missing_ok: bool = False) -> None:
        unlink(file, missing_ok)
        raise Interrupted

    monkeypatch.setattr(Path, "unlink", unlinked_once)
    while any(tmp_path.iterdir()):
        with pytest.raises(Interrupted):
            remove(path)
        if path.exists() or path.with_name("model.safetensors.index.json").exists():
            assert found(path) == 2


def test_what_a_save_replaces_and_cannot_remove_makes_it_fail_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "model.safetensors"
    save(path, 1)
    unlink = Path.unlink

    def refused(file: Path, missing_ok: bool = False) -> None:
        if file.parent == tmp_path and file.name.startswith("model"):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        unlink(file, missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    for step, kind in ((2, "shards"), (3, "single"), (4, "shards")):
        save(path, step, kind)
        assert found(path) == step
    assert "could not be removed: Operation not permitted" in caplog.text
