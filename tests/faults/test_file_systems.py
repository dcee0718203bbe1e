"""Directories of steps on file systems that lack something, that may not be written, that change while a run uses them, or that
hold very many steps."""

import errno
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType

import pytest
from click.testing import CliRunner

from tests.faults.images import Image
from tests.faults.places import EVERY
from tests.faults.states import LAYOUT, Run, bits, later
from treaty.runtime import CheckpointManager, StorageError, TreatyError, restore, save, verify
from treaty.runtime.commands.steps import steps as treaty_steps
from treaty.runtime.formats.directory import places as _places
from treaty.runtime.formats.directory import plan as _plan

ReadOnly = Callable[[Path], AbstractContextManager[None]]


@pytest.fixture(autouse=True)
def layout(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LAYOUT.items():
        monkeypatch.setattr(_plan, name, value)


def train(folder: Path, first: int, last: int, keep_last: int | None = None) -> None:
    with CheckpointManager(folder, Run, keep_last=keep_last) as manager:
        for step in range(first, last + 1):
            manager.save(step, later(step))


def whole(folder: Path) -> list[int]:
    """The steps that are there, each bit for bit."""
    reader = CheckpointManager(folder, Run, read_only=True)
    for step in reader.all_steps():
        assert bits(reader.restore(step)) == bits(later(step))
        verify(folder / str(step))
    return reader.all_steps()


def chunks(step: Path) -> dict[str, int]:
    """The chunks of a step, and which file each is."""
    (data,) = step.glob("data-*")
    return {path.name: path.stat().st_ino for path in data.glob("*/c.*")}


def linked(one: Path, other: Path) -> int:
    return len({*chunks(one).values()} & {*chunks(other).values()})


def test_without_hard_links_each_step_is_written(exfat: Image) -> None:
    (exfat.mounted / "file").touch()
    with pytest.raises(PermissionError):
        os.link(exfat.mounted / "file", exfat.mounted / "link")
    folder = exfat.mounted / "run"
    train(folder, 1, 3, keep_last=2)
    train(folder, 4, 5, keep_last=2)
    assert whole(folder) == [4, 5]
    assert sorted(os.listdir(folder)) == [".treaty", "4", "5"]


def test_a_step_that_was_moved_to_another_disk_is_no_base_for_links(tmp_path: Path, full_disk: Path) -> None:
    train(tmp_path / "run", 1, 1)
    shutil.move(tmp_path / "run" / "1", full_disk / "1")
    (tmp_path / "run" / "1").symlink_to(full_disk / "1")
    train(tmp_path / "run", 2, 3, keep_last=1)
    assert whole(tmp_path / "run") == [1, 3]  # a link is not the manager's to delete
    assert (tmp_path / "run" / "1").is_symlink()


def test_a_checkpoint_on_another_disk_is_a_base_all_the_same(tmp_path: Path, full_disk: Path) -> None:
    save(full_disk / "1", later(1))
    save(tmp_path / "2", later(2), base=full_disk / "1")
    assert bits(restore(tmp_path / "2", Run)) == bits(later(2))
    assert linked(tmp_path / "2", full_disk / "1") == 0


def test_a_file_with_as_many_links_as_there_may_be_is_written_anew_and_linked_from_then_on(ext2: Image) -> None:
    folder = ext2.mounted / "run"
    train(folder, 1, 1)
    full = max((folder / "1").glob("data-*/*/c.*"))
    with pytest.raises(OSError, match="Too many links"):
        link_for_ever(full, ext2.mounted)
    train(folder, 2, 3)
    assert whole(folder) == [1, 2, 3]
    name = full.name
    first, second, third = (chunks(folder / str(step))[name] for step in (1, 2, 3))
    assert first != second == third


def link_for_ever(file: Path, folder: Path) -> None:
    for number in range(10**6):
        links = folder / f"{number // 500}"  # of many names in one directory each takes longer
        links.mkdir(exist_ok=True)
        os.link(file, f"{links}/{number}")


def test_a_disk_that_may_not_be_written_any_more_costs_no_step_and_when_it_may_the_run_goes_on(
    tmp_path: Path, read_only: ReadOnly
) -> None:
    folder = tmp_path / "run"
    with CheckpointManager(folder, Run, keep_last=2) as manager:
        manager.save(1, later(1))
        manager.wait()
        with read_only(tmp_path):
            manager.save(2, later(2))
            with pytest.raises(StorageError, match=r"cannot write .*Read-only file system") as told:
                manager.wait()
            assert told.value.errno == errno.EROFS
            assert manager.latest_step() == 1
            assert bits(manager.restore()) == bits(later(1))
        manager.save(3, later(3))
        manager.save(4, later(4))
    assert whole(folder) == [3, 4]


def test_a_directory_that_may_not_be_written_is_read_and_an_error_for_who_writes(
    tmp_path: Path, read_only: ReadOnly
) -> None:
    folder = tmp_path / "run"
    train(folder, 1, 2)
    with read_only(tmp_path):
        assert whole(folder) == [1, 2]
        reader = CheckpointManager(folder, Run, read_only=True)
        assert [one.step for one in reader.plan()] == [1, 2]
        assert CliRunner().invoke(treaty_steps, [str(folder), "--plan"]).exit_code == 0
        with pytest.raises(StorageError, match=r"^cannot write .*run: Read-only file system$"):
            CheckpointManager(folder, Run)
        with pytest.raises(StorageError, match=r"^cannot write .*run: Read-only file system$"):
            reader.pin(1)
        with pytest.raises(StorageError, match=r"^cannot write .*new: Read-only file system$"):
            CheckpointManager(tmp_path / "new", Run)
    train(folder, 3, 3)
    assert whole(folder) == [1, 2, 3]


def test_a_step_that_cannot_be_deleted_keeps_no_other_from_going(
    tmp_path: Path, read_only: ReadOnly, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "run"
    train(folder, 1, 3)
    with read_only(folder / "1"):
        train(folder, 4, 5, keep_last=1)
        assert whole(folder) == [1, 5]
        assert f"step 1 of {folder} is not deleted: cannot remove {folder}/1: " in caplog.text
    train(folder, 6, 6, keep_last=1)
    assert sorted(os.listdir(folder)) == [".treaty", "6"]


def test_remains_that_cannot_be_deleted_keep_no_others_from_going(tmp_path: Path, read_only: ReadOnly) -> None:
    folder = tmp_path / "run"
    train(folder, 1, 3)
    for step in (1, 2):
        os.rename(folder / str(step), folder / f".{step}.0123456789ab.removed")
    with read_only(folder / ".1.0123456789ab.removed"):
        train(folder, 4, 4)
        assert sorted(os.listdir(folder)) == [".1.0123456789ab.removed", ".treaty", "3", "4"]
    train(folder, 5, 5)
    assert whole(folder) == [3, 4, 5]
    assert len(os.listdir(folder)) == 4


@pytest.mark.parametrize("instead", ["nothing", "a file", "a directory", "a run"])
def test_what_is_put_in_the_place_of_a_directory_in_use_is_left_alone(instead: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    manager = CheckpointManager(folder, Run, keep_last=1)
    manager.save(1, later(1))
    manager.wait()
    folder.rename(tmp_path / "moved")
    if instead == "a file":
        folder.write_text("precious")
    elif instead == "a directory":
        folder.mkdir()
    elif instead == "a run":
        train(folder, 7, 7)
    with pytest.raises(TreatyError, match="it was removed while a manager wrote to it; make a new manager"):
        manager.save(2, later(2))
    manager.close()
    assert whole(tmp_path / "moved") == [1]
    if instead == "a file":
        assert folder.read_text() == "precious"
    elif instead == "a run":
        assert whole(folder) == [7]
    else:
        assert not folder.exists() or os.listdir(folder) == []


@pytest.mark.parametrize("how", ["moved", "deleted"])
def test_a_directory_that_goes_while_a_step_is_written_is_an_error_of_that_save(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    commit = _places.Local.commit

    def gone(self: _places.Local, data: str, manifest: bytes, files: dict[str, int]) -> None:
        folder.rename(tmp_path / "moved") if how == "moved" else shutil.rmtree(folder)
        commit(self, data, manifest, files)

    manager = CheckpointManager(folder, Run)
    manager.save(1, later(1))
    manager.wait()
    monkeypatch.setattr(_places.Local, "commit", gone)
    manager.save(2, later(2))
    with pytest.raises(TreatyError, match="another save took the place meanwhile"):
        manager.wait()
    with pytest.raises(TreatyError, match="it was removed while a manager wrote to it; make a new manager"):
        manager.save(3, later(3))
    manager.close()
    assert not folder.exists()
    if how == "moved":
        assert whole(tmp_path / "moved") == [1]


def many(folder: Path, count: int) -> None:
    """So many steps, with the manifest of one of them."""
    train(folder, 1, 1)
    for step in range(2, count + 1):
        (folder / str(step)).mkdir()
        os.link(folder / "1" / "treaty.json", folder / str(step) / "treaty.json")


def calls_of(work: Callable[[Path], object], folder: Path) -> int:
    """How many functions are called meanwhile, by this thread."""
    count = 0

    def counted(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work(folder)
    finally:
        sys.setprofile(None)
    return count


LOOKS: dict[str, Callable[[Path], object]] = {
    "latest_step": lambda folder: CheckpointManager(folder, Run, read_only=True).latest_step(),
    "all_steps": lambda folder: CheckpointManager(folder, Run, read_only=True).all_steps(),
    "best_step": lambda folder: CheckpointManager(folder, Run, read_only=True).best_step("loss", "min"),
    "plan": lambda folder: CheckpointManager(folder, Run, read_only=True, keep_last=3, keep_every=7).plan(),
    "treaty steps": lambda folder: CliRunner().invoke(treaty_steps, [str(folder)], catch_exceptions=False),
}


def test_what_a_look_at_many_steps_costs_grows_no_faster_than_they_do(tmp_path: Path) -> None:
    few, more = (2_500, 10_000) if EVERY else (250, 1000)
    many(tmp_path / "few", few)
    many(tmp_path / "more", more)
    for what, look in LOOKS.items():
        look(tmp_path / "few")  # what is done once
        assert calls_of(look, tmp_path / "more") <= 4.2 * calls_of(look, tmp_path / "few"), what


def test_a_run_of_many_steps_goes_on_and_deletes_what_no_rule_keeps(tmp_path: Path) -> None:
    count = 10_000 if EVERY else 200
    many(tmp_path / "run", count)
    assert len(CheckpointManager(tmp_path / "run", Run, read_only=True).all_steps()) == count
    with CheckpointManager(tmp_path / "run", Run, keep_last=3) as manager:
        manager.save(count + 1, later(count + 1))
        manager.wait()
        assert manager.all_steps() == [count - 1, count, count + 1]
    assert len(os.listdir(tmp_path / "run")) == 4
