"""What a manager deletes, what it leaves alone, and that a directory with anything in it works."""

import logging
import os
import threading
import time
from pathlib import Path

import pytest

from tests.faults.states import Run, bits, run
from treaty.runtime import CheckpointManager, MissingCheckpointError, TreatyError, restore, save
from treaty.runtime._manager import local as _local
from treaty.runtime.formats.directory.steps import StepName


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def names(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name != ".treaty")


def fill(folder: Path, steps: int = 3) -> None:
    with CheckpointManager(folder, Run) as manager:
        for step in range(1, steps + 1):
            manager.save(step, run(step), metrics={"loss": 1 / step})


def test_what_no_rule_keeps_is_deleted_in_the_background(folder: Path) -> None:
    with CheckpointManager(folder, Run, keep_last=2, keep_every=4, keep_best=("loss", "max", 1)) as manager:
        for step in range(1, 8):
            manager.save(step, run(step), metrics={"loss": 10 if step == 3 else 1})
        manager.wait()
        assert manager.all_steps() == [3, 4, 6, 7]
    assert names(folder) == ["3", "4", "6", "7"]


def test_a_plan_deletes_nothing_and_says_what_would_go(folder: Path) -> None:
    fill(folder)
    manager = CheckpointManager(folder, Run, keep_last=1, read_only=True)
    assert [str(one) for one in manager.plan()] == [
        "step 1 (loss=1): goes, no rule keeps it",
        "step 2 (loss=0.5): goes, no rule keeps it",
        "step 3 (loss=0.333333): kept, newest, keep_last=1",
    ]
    assert names(folder) == ["1", "2", "3"]


def test_pinned_steps_stay_until_they_are_unpinned_by_whoever(folder: Path) -> None:
    fill(folder)
    evaluation = CheckpointManager(folder, Run, read_only=True)
    evaluation.pin(1)
    with pytest.raises(MissingCheckpointError, match="expected step 9"):
        evaluation.pin(9)
    with CheckpointManager(folder, Run, keep_last=1) as manager:
        manager.save(4, run(4))
        manager.wait()
        assert manager.all_steps() == [1, 4]
        evaluation.unpin(1)
        manager.save(5, run(5))
    assert names(folder) == ["5"]
    assert os.listdir(folder / ".treaty" / "pins") == []


def test_a_step_that_is_pinned_after_the_plan_was_made_stays(folder: Path) -> None:
    fill(folder)
    steps = _local.LocalSteps(str(folder))
    steps.pin(StepName(0, 1))
    steps.remove(StepName(0, 1))
    steps.remove(StepName(0, 2))
    assert names(folder) == ["1", "3"]


def test_a_step_that_cannot_be_read_is_left_and_keeps_no_other(folder: Path) -> None:
    fill(folder)
    (folder / "2" / "treaty.json").unlink()
    (folder / "2" / "treaty.json").symlink_to("treaty.json")
    with CheckpointManager(folder, Run, keep_last=1) as manager:
        manager.save(4, run(4))
        manager.wait()
        assert [(one.step, one.why) for one in manager.plan()] == [
            (2, "cannot be read, and left as it is"),
            (4, "newest, keep_last=1"),
        ]
    assert names(folder) == ["2", "4"]


def test_saves_that_end_while_steps_are_deleted_leave_it_to_the_one_that_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(steps: _local.LocalSteps, name: StepName) -> None:
        assert may_go.wait(60)
        remove(steps, name)

    may_go, remove = threading.Event(), _local.LocalSteps.remove
    monkeypatch.setattr(_local.LocalSteps, "remove", slowly)
    with CheckpointManager(folder, Run, keep_last=1) as manager:
        for step in range(1, 9):
            manager.save(step, run(step))
        assert sum(one.name == "treaty-save" for one in threading.enumerate()) < 5
        may_go.set()
        manager.wait()
        assert manager.all_steps() == [8]


def test_a_step_of_which_the_system_does_not_tell_whether_it_is_pinned_stays(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(folder)
    (folder / ".treaty" / "pins").mkdir()
    (folder / ".treaty" / "pins" / "1").symlink_to("1")
    _local.LocalSteps(str(folder)).remove(StepName(0, 1))
    assert names(folder) == ["1", "2", "3"]
    assert f"step 1 of {folder} is not deleted: cannot remove {folder}/1: Too many levels" in caplog.text


def test_a_step_that_holds_another_file_or_is_a_link_is_left_alone(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(folder, 2)
    (folder / "1" / "notes.txt").write_text("precious")
    fill(tmp_path / "other", 1)
    (folder / "0").symlink_to(tmp_path / "other" / "1")
    with CheckpointManager(folder, Run, keep_last=1) as manager:
        manager.save(3, run(3))
        manager.wait()
        assert next(one.why for one in manager.plan()) == "a link"
    assert names(folder) == ["0", "1", "3"]
    assert (
        f"step 1 of {folder} is not deleted: expected a directory with nothing but one checkpoint, got notes.txt in "
        in caplog.text
    )
    assert bits(restore(tmp_path / "other", Run)) == bits(run(1))


def test_names_that_look_like_steps_and_foreign_files_are_nobodys(folder: Path) -> None:
    fill(folder, 2)
    strange = [
        "007",
        "1.5",
        "-3",
        "5-r0",
        "5-r01",
        "100-r1-r2",
        "٣",
        "step-7",
        "1e3",
        "9" * 19,
        " 8",
        ".1.removed",
        ".1.0123456789ab.tmp",
    ]
    for name in strange:
        save(folder / name, run(9))
    (folder / "77").write_text("a file")
    (folder / "events.log").write_text("precious")
    (folder / ".notes.0123456789ab.removed").mkdir()
    with CheckpointManager(folder, Run, keep_last=1) as manager:
        assert manager.all_steps() == [1, 2]
        manager.save(3, run(3))
        manager.wait()
    assert set(names(folder)) == {"3", "77", "events.log", ".notes.0123456789ab.removed", *strange}
    assert bits(restore(folder, Run)) == bits(run(3))


def test_what_killed_saves_and_removals_left_goes_when_the_next_manager_comes(folder: Path) -> None:
    fill(folder, 3)
    os.rename(folder / "1", folder / ".1.0123456789ab.removed")
    (folder / "2" / "treaty.json").unlink()  # of a save of this process, which is over
    (folder / "2" / ".treaty.json.0123abcd.tmp").write_bytes(b"{")
    (folder / "4").mkdir()
    (folder / "5").mkdir()
    (folder / "5" / ".treaty.json.0123abcd.tmp").touch()
    with CheckpointManager(folder, Run) as manager:
        assert names(folder) == ["3"]
        assert manager.all_steps() == [3]


def test_what_another_machine_may_still_be_writing_stays_for_a_quarter_of_an_hour(folder: Path) -> None:
    fill(folder, 1)
    data = folder / "2" / "data-0123456789abcdef"
    data.mkdir(parents=True)
    CheckpointManager(folder, Run).close()
    assert names(folder) == ["1", "2"]
    old = time.time() - 1000
    os.utime(data, (old, old))
    CheckpointManager(folder, Run).close()
    assert names(folder) == ["1"]


def test_what_a_plain_save_is_writing_is_left_alone(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    from treaty.runtime._storage.workspace import locked_directory

    fill(folder, 1)
    (folder / "2" / "data-0123456789abcdef").mkdir(parents=True)
    os.utime(folder / "2" / "data-0123456789abcdef", (0, 0))
    with locked_directory(folder / "2"):
        CheckpointManager(folder, Run).close()
    assert names(folder) == ["1", "2"]
    assert "is left as it is: expected" in caplog.text


def test_a_deletion_that_fails_is_told_and_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with CheckpointManager(folder, Run, keep_last=1) as manager:
        manager.save(1, run(1))
        manager.wait()
        monkeypatch.setattr(_local, "delete_aside", fail)
        manager.save(2, run(2))
        manager.wait()
        assert f"step 1 of {folder} is not deleted: cannot remove {folder}/1: Input/output error" in caplog.text
        assert manager.all_steps() == [2]
        monkeypatch.undo()
        manager.save(3, run(3))
    assert names(folder) == ["3"]


def test_a_directory_that_is_removed_while_it_is_used_is_one_clear_error(folder: Path, tmp_path: Path) -> None:
    manager = CheckpointManager(folder, Run)
    manager.save(1, run(1))
    manager.wait()
    os.rename(folder, tmp_path / "moved")
    with pytest.raises(TreatyError, match="it was removed while a manager wrote to it"):
        manager.save(2, run(2))
    assert manager.latest_step() is None
    assert not folder.exists()
    manager.close()
    assert bits(restore(tmp_path / "moved", Run)) == bits(run(1))


def test_ten_thousand_steps_are_listed_and_the_newest_restored(folder: Path) -> None:
    fill(folder, 1)
    for step in range(2, 10_001):
        (folder / str(step)).symlink_to(folder / "1")
    reader = CheckpointManager(folder, Run, read_only=True)
    assert reader.latest_step() == 10_000
    assert len(reader.all_steps()) == 10_000
    assert bits(restore(folder, Run)) == bits(run(1))


def test_deletions_are_on_the_log(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "treaty")
    fill(folder, 1)
    with CheckpointManager(folder, Run, keep_last=1) as manager:
        manager.save(2, run(2))
    assert f"step 1 of {folder} is deleted" in caplog.messages
