"""When a manager saves, what its list of steps says, and that no failure goes unseen."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.faults.states import Run, bits, run
from tests.runtime.directory.states import Linear, linear
from treaty.runtime import (
    CheckpointManager,
    Decision,
    InvalidArgumentError,
    MissingCheckpointError,
    StateMismatchError,
    StorageError,
    TreatyError,
    inspect,
    restore,
    save,
    verify,
)
from treaty.runtime._manager import decisions as _decisions
from treaty.runtime._manager import local as _local
from treaty.runtime.formats.directory import write as _write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


class Clock:
    """A monotonic clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(_decisions, "time", found)
    return found


def test_multiples_of_every_are_saved_and_the_reason_is_said(folder: Path) -> None:
    with CheckpointManager(folder, Run, every=3) as manager:
        said = [manager.save(step, run(step)) for step in range(1, 7)]
        assert [one.saved for one in said] == [False, False, True, False, False, True]
        assert str(said[1]) == "not saved: step 2 is no multiple of every=3"
        assert said[2] == Decision(True, "step 3 is a multiple of every=3")
        assert manager.save(7, run(7), force=True).reason == "force=True"
    assert bits(restore(folder / "6", Run)) == bits(run(6))
    assert CheckpointManager(folder, Run, read_only=True).all_steps() == [3, 6, 7]


def test_without_a_rule_every_step_is_saved(folder: Path) -> None:
    number: Any = np.int64(2)
    with CheckpointManager(folder, Run) as manager:
        assert all(manager.save(step, run(step)) for step in (0, 1))
        assert manager.save(number, run(2))
    assert CheckpointManager(folder, Run, read_only=True).all_steps() == [0, 1, 2]


def test_seconds_are_counted_from_the_last_save(folder: Path, clock: Clock) -> None:
    with CheckpointManager(folder, Run, every_s=60) as manager:
        said = []
        for step in range(1, 8):
            clock.now += 25
            said.append(manager.save(step, run(step)))
        assert [one.saved for one in said] == [False, False, True, False, False, True, False]
        assert said[0].reason == "25.0 s since the last save, every_s=60"


def test_steps_and_seconds_together_save_when_either_says_so(folder: Path, clock: Clock) -> None:
    with CheckpointManager(folder, Run, every=4, every_s=60) as manager:
        assert str(manager.save(1, run(1))) == (
            "not saved: step 1 is no multiple of every=4, 0.0 s since the last save, every_s=60"
        )
        clock.now += 61
        assert manager.save(2, run(2))
        assert manager.save(4, run(4))


def test_a_share_of_the_time_follows_from_what_a_save_costs(clock: Clock) -> None:
    one = _decisions.cadence(None, "2%")
    assert one.by_clock().reason == "the first save, to know what it costs"
    one.saved(cost=0.5)
    one.ended(0, 10)
    clock.now += 24.9
    assert not one.by_clock()
    clock.now += 0.2
    assert one.by_clock()
    one.saved(cost=0.5)
    one.ended(0, 70)  # in the background: the next one would have to wait for it
    clock.now += 69.9
    assert not one.by_clock()
    clock.now += 0.2
    assert str(one.by_clock()) == "saved: 70.1 s since the last save, 70.0 s for 0.02 of the time"


def test_a_save_that_says_late_that_it_has_ended_is_not_taken_for_the_next_one(clock: Clock) -> None:
    one = _decisions.cadence(None, "2%")
    one.begins(1)
    one.begins(2)
    one.ended(1, 10)
    clock.now += 1e6
    assert not one.by_clock()
    one.ended(2, 10)
    assert one.by_clock()


def test_a_share_of_the_time_never_saves_before_the_last_save_has_ended(
    folder: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*args: Any) -> Any:
        assert may_end.wait(60)
        return complete(*args)

    may_end, complete = threading.Event(), _write._complete
    monkeypatch.setattr(_write, "_complete", slowly)
    with CheckpointManager(folder, Run, every_s="2%") as manager:
        assert manager.save(1, run(1))
        clock.now += 1e6
        assert str(manager.save(2, run(2))) == "not saved: the save before it has not ended"
        may_end.set()
        manager.wait()
        assert manager.save(3, run(3))


def test_a_clock_that_jumps_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with CheckpointManager(folder, Run, keep_last=2) as manager:
        for step, now in ((1, 2e9), (2, 5.0), (3, 1e9)):
            monkeypatch.setattr(time, "time", lambda now=now: now)
            manager.save(step, run(step))
            manager.wait()
        assert [(one.step, one.time) for one in manager.plan()] == [(2, 5.0), (3, 1e9)]
        assert manager.latest_step() == 3


def test_metrics_and_metadata_lie_with_the_step(folder: Path) -> None:
    given = {"loss": np.float32(0.5), "accuracy": 1, "worst": float("nan"), "far": float("-inf")}
    with CheckpointManager(folder, Run) as manager:
        manager.save(5, run(5), metrics=given, metadata={"data": [7]})
        manager.wait()
        found = manager.metrics(5)
    assert repr(found) == "{'loss': 0.5, 'accuracy': 1.0, 'worst': nan, 'far': -inf}"
    assert inspect(folder / "5").metadata == {"data": [7]}
    verify(folder / "5")


@pytest.mark.parametrize("given", [{"loss": "low"}, {"loss": np.zeros(2)}, {"loss": 10**400}, {3: 1.0}, [1.0]])
def test_metrics_that_are_none_are_refused_before_anything_is_written(given: Any, folder: Path) -> None:
    with CheckpointManager(folder, Run) as manager:
        with pytest.raises(InvalidArgumentError, match=r"expected (a number for the metric|metrics by name)"):
            manager.save(1, run(1), metrics=given)
        assert manager.all_steps() == []


@pytest.mark.parametrize("step", [-1, True, 1.5, "7", None, 10**18])
def test_steps_that_are_none_are_refused(step: Any, folder: Path) -> None:
    with CheckpointManager(folder, Run) as manager, pytest.raises(InvalidArgumentError, match="expected a step from 0"):
        manager.save(step, run(1))


@pytest.mark.parametrize(
    "options",
    [
        {"every": 0},
        {"every_s": "2"},
        {"every_s": "0%"},
        {"every_s": -1},
        {"every_s": float("nan")},
        {"keep_last": 0},
        {"keep_every": 2.5},
        {"keep_best": "loss"},
        {"keep_best": ("loss", "lowest", 3)},
        {"keep_best": [("loss", "min", 0)]},
        {"on_preemption": [9]},
    ],
)
def test_options_that_mean_nothing_are_refused_and_nothing_is_made(options: Any, folder: Path) -> None:
    with pytest.raises(InvalidArgumentError):
        CheckpointManager(folder, Run, **options)
    assert not folder.exists()


def test_the_failure_of_a_save_is_raised_once_by_the_next_call_and_the_one_after_goes_on(
    folder: Path, tmp_path: Path
) -> None:
    def break_step(step: int) -> None:
        (folder / str(step)).write_text("in the way")

    manager = CheckpointManager(folder, Run, every=2)
    break_step(2)
    manager.save(2, run(2))
    with pytest.raises(TreatyError, match="expected a directory or nothing, got a file"):
        manager.save(4, run(4))
    assert manager.save(4, run(4))
    break_step(6)
    manager.save(6, run(6))
    with pytest.raises(TreatyError, match="got a file"):
        manager.wait()
    assert manager.restored_step == 4
    manager.wait()
    break_step(8)
    manager.save(8, run(8))
    with pytest.raises(TreatyError, match="got a file"):
        manager.close()
    assert CheckpointManager(folder, Run).all_steps() == [4]


def test_what_ended_the_block_is_told_before_a_save_that_failed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    def train() -> None:
        with CheckpointManager(folder, Run) as manager:
            (folder / "1").write_text("in the way")
            manager.save(1, run(1))
            raise KeyError("loss")

    with pytest.raises(KeyError):
        train()
    assert "got a file" in caplog.text


def test_a_state_of_another_class_is_refused_at_once(folder: Path) -> None:
    wrong: Any = {"step": 1}
    with CheckpointManager(folder, Run) as manager:
        with pytest.raises((StateMismatchError, TreatyError, TypeError)):
            manager.save(1, wrong)
        assert manager.save(2, run(2))
    assert CheckpointManager(folder, Run, read_only=True).all_steps() == [2]


def test_a_step_that_was_just_saved_or_restored_is_not_saved_again(folder: Path) -> None:
    with CheckpointManager(folder, Run) as manager:
        manager.save(1, run(1))
        assert str(manager.save(1, run(1))) == "not saved: step 1 is there already"
        assert manager.save(1, run(5), force=True)
    with CheckpointManager(folder, Run) as manager:
        assert bits(manager.restore()) == bits(run(5))
        assert manager.save(1, run(1)).reason == "step 1 is there already"
    assert sorted(os.listdir(folder)) == [".treaty", "1"]


def test_after_a_rollback_what_is_saved_then_is_the_newest(folder: Path) -> None:
    """For other readers, for a restart, and for retention."""
    with CheckpointManager(folder, Run) as manager:
        for step in (100, 200, 300):
            manager.save(step, run(step))
    with CheckpointManager(folder, Run, keep_last=3) as manager:
        manager.restore(100)
        assert manager.save(200, run(222))
        manager.wait()
        reader = CheckpointManager(folder, Run, read_only=True)
        assert (reader.latest_step(), reader.all_steps()) == (200, [100, 200, 300])
        assert bits(reader.restore(200)) == bits(restore(folder, Run)) == bits(run(222))
        assert reader.restored_step == 200
        assert [(Path(one.path).name, one.kept, one.why) for one in reader.plan()] == [
            ("100", True, "no rule"),
            ("300", True, "no rule"),
            ("200-r1", True, "newest, no rule"),
        ]
        manager.save(250, run(250))
    with CheckpointManager(folder, Run) as again:
        assert int(again.restore().step) == 250
        again.save(260, run(260))
    assert sorted(os.listdir(folder)) == [".treaty", "200-r1", "250-r1", "260-r1", "300"]


def test_a_run_that_begins_anew_beside_old_steps_is_not_mixed_up_with_them(folder: Path) -> None:
    with CheckpointManager(folder, Run) as manager:
        manager.save(50, run(50))
    with CheckpointManager(folder, Run, keep_last=1) as manager:
        manager.save(10, run(10))
    assert int(restore(folder, Run).step) == 10
    assert sorted(os.listdir(folder)) == [".treaty", "10-r1"]


def test_a_closed_manager_saves_nothing_and_may_be_closed_again(folder: Path) -> None:
    manager = CheckpointManager(folder, Run)
    manager.close()
    manager.close()
    with pytest.raises(InvalidArgumentError, match="expected an open manager"):
        manager.save(1, run(1))


def test_nothing_is_made_by_one_who_only_looks(folder: Path) -> None:
    reader = CheckpointManager(folder, Run, read_only=True)
    assert (reader.latest_step(), reader.all_steps(), reader.plan()) == (None, [], [])
    with pytest.raises(MissingCheckpointError, match="expected a step, got none"):
        reader.restore()
    with pytest.raises(InvalidArgumentError, match="got read_only=True"):
        reader.save(1, run(1))
    reader.close()
    assert not folder.exists()


def test_a_directory_that_is_one_checkpoint_is_refused(folder: Path) -> None:
    save(folder, run(1))
    with pytest.raises(InvalidArgumentError, match="expected a directory of steps, got one checkpoint at "):
        CheckpointManager(folder, Run)
    assert not (folder / ".treaty").exists()


def test_rules_that_cannot_be_noted_are_on_the_log(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / ".treaty" / "rules.json").mkdir(parents=True)
    with CheckpointManager(folder, Run, keep_last=1) as manager:
        assert manager.save(1, run(1))
    assert f"the rules of {folder} are not noted for treaty steps --plan: cannot write " in caplog.text


def test_a_manager_that_fails_while_it_opens_holds_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(_local.LocalSteps, "write_rules", fail)
        with pytest.raises(MemoryError):
            CheckpointManager(folder, Run)
    CheckpointManager(folder, Run).close()


def test_a_place_that_may_not_be_written_is_one_clear_error(folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(StorageError, match=r"cannot write .*run"):
        CheckpointManager(folder, Run)


def test_a_step_has_the_files_of_the_one_before_where_nothing_changed_and_is_whole_without_it(folder: Path) -> None:
    state = linear(512, 1024)
    with CheckpointManager(folder, Linear, keep_last=1) as manager:
        manager.save(1, state)
        manager.wait()
        (before,) = (folder / "1").glob("data-*/*/c.*")
        inode = before.stat().st_ino
        manager.save(2, state)
        manager.wait()
    (after,) = (folder / "2").glob("data-*/*/c.*")
    assert after.stat().st_ino == inode
    assert not before.exists()
    verify(folder / "2")


def test_steps_are_compressed_where_that_is_asked_for(folder: Path) -> None:
    zeros = Linear(kernel=jnp.zeros((1024, 512)), bias=jnp.zeros(512))
    with CheckpointManager(folder, Linear, compress="zstd") as manager:
        manager.save(1, zeros)
        manager.save(2, zeros)
        manager.wait()
        assert bool(jnp.array_equal(manager.restore().kernel, zeros.kernel))
    sizes = {path.stat().st_ino: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < 2**18  # of 2 MiB each
    with pytest.raises(TreatyError, match="zstd"):
        CheckpointManager(folder, Linear, compress="gzip")
