"""Which step a manager restores, of directories in which not all is as it should be."""

import errno
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from tests.faults.states import Run, bits, run
from tests.runtime.directory.states import Linear, linear
from treaty.runtime import (
    CheckpointManager,
    CorruptCheckpointError,
    InvalidArgumentError,
    MissingCheckpointError,
    StateMismatchError,
    StorageError,
    inspect,
    plan,
    remove,
    restore,
    save,
    verify,
)
from treaty.runtime._manager import restoring as _restoring
from treaty.runtime._manager.overview import noted


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with CheckpointManager(tmp_path / "run", Run) as manager:
        for step in (1, 2, 3):
            manager.save(step, run(step), metrics={"loss": 1 / step})
    return tmp_path / "run"


def unfinish(step: Path) -> None:
    (step / "treaty.json").unlink()


def cut(step: Path) -> None:
    (step / "treaty.json").write_bytes((step / "treaty.json").read_bytes()[:-9])


def flip(step: Path) -> None:
    file = max(step.glob("data-*/*.msgpack"))
    file.write_bytes(file.read_bytes()[:-1] + b"?")


def lose(step: Path) -> None:
    max(step.glob("data-*/*.msgpack")).unlink()


@pytest.mark.parametrize("damage", [unfinish, cut, flip, lose])
def test_the_newest_whole_step_is_taken_and_what_was_skipped_is_named(
    damage: Callable[[Path], None], folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damage(folder / "3")
    manager = CheckpointManager(folder, Run, read_only=True)
    assert bits(manager.restore()) == bits(run(2))
    assert manager.restored_step == 2
    assert manager.latest_step() == (2 if damage is unfinish else 3)
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert damage is unfinish or (len(told) == 1 and told[0].startswith(f"step 3 of {folder} is skipped: "))
    with pytest.raises((CorruptCheckpointError, MissingCheckpointError)):
        manager.restore(3)


def test_after_a_damaged_step_the_run_goes_on_and_the_damage_stays_to_be_looked_at(folder: Path) -> None:
    cut(folder / "3")
    with CheckpointManager(folder, Run, keep_last=1) as manager:
        manager.restore()
        assert manager.save(3, run(33))
        manager.wait()
        assert bits(manager.restore()) == bits(run(33))
        assert [(Path(one.path).name, one.why) for one in manager.plan()] == [
            ("3", "damaged, and left for you to look at"),
            ("3-r1", "newest, keep_last=1"),
        ]


def test_a_reader_whose_step_is_deleted_while_it_reads_takes_the_one_that_came_instead(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CheckpointManager(folder, Run, keep_last=1) as writer:

        def overtaken(path: str, *args: Any, **options: Any) -> Any:
            if path.endswith("3"):
                writer.save(4, run(4))
                writer.wait()
            return restore(path, *args, **options)

        monkeypatch.setattr(_restoring, "restore", overtaken)
        reader = CheckpointManager(folder, Run, read_only=True)
        assert bits(reader.restore()) == bits(run(4))
        assert reader.restored_step == 4


@pytest.mark.skipif(
    not Path("/proc/self/mem").exists(), reason="needs a file whose reading fails as a broken disk does"
)
def test_a_step_that_the_disk_does_not_give_stands_in_nobodys_way(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = folder / "3" / "treaty.json"
    manifest.unlink()
    manifest.symlink_to("/proc/self/mem")  # at its beginning: Input/output error
    with CheckpointManager(folder, Run, keep_last=1) as manager:
        assert bits(manager.restore()) == bits(run(2))
        assert manager.save(4, run(4))
        manager.wait()
        assert bits(manager.restore()) == bits(run(4))
        assert [(one.step, one.why) for one in manager.plan()] == [
            (3, "damaged, and left for you to look at"),
            (4, "newest, keep_last=1"),
        ]
        assert manager.best_step("loss", "min") is None
    assert f"{folder}/4 is saved in full, not based on {folder}/3: cannot read " in caplog.text


def test_a_step_of_which_the_system_does_not_tell_whether_it_is_there_counts_as_there(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (2, 3):
        manifest = folder / str(step) / "treaty.json"
        manifest.unlink()
        manifest.symlink_to(manifest)  # stat says: too many levels of symbolic links
    with pytest.raises(CorruptCheckpointError, match=r"Too many levels of symbolic links at .*3/treaty\.json"):
        restore(folder, Run)
    manager = CheckpointManager(folder, Run, read_only=True)
    assert manager.latest_step() == 3
    assert bits(manager.restore()) == bits(run(1))
    assert f"step 3 of {folder} is skipped" in caplog.text
    shutil.rmtree(folder / "1")
    with pytest.raises(CorruptCheckpointError, match="expected a whole step in "):
        manager.restore()


def test_a_path_of_which_the_system_does_not_tell_what_is_there_is_not_missing(tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to(tmp_path / "run")
    with pytest.raises(StorageError, match=r"cannot read .*run: Too many levels of symbolic links") as raised:
        restore(tmp_path / "run", Run)
    assert not isinstance(raised.value, MissingCheckpointError)


def test_that_all_is_damaged_is_not_that_nothing_is_there(folder: Path) -> None:
    for step in folder.glob("[0-9]*"):
        flip(step)
    with pytest.raises(CorruptCheckpointError, match=r"expected a whole step in .*\nstep 3: .*") as caught:
        CheckpointManager(folder, Run, read_only=True).restore()
    assert "step 1: " in str(caught.value)


def test_a_class_that_does_not_fit_is_no_reason_to_take_an_earlier_step(folder: Path) -> None:
    manager = CheckpointManager(folder, Linear, read_only=True)
    with pytest.raises(StateMismatchError):
        manager.restore()


def test_a_disk_that_does_not_answer_is_no_reason_either_but_one_that_is_broken_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(number: int) -> Callable[..., Any]:
        def fail(path: str, *args: Any, **options: Any) -> Any:
            if path.endswith("3"):
                raise StorageError("cannot read it") if number == 0 else _storage_error("cannot read it", number)
            return restore(path, *args, **options)

        return fail

    manager = CheckpointManager(folder, Run, read_only=True)
    monkeypatch.setattr(_restoring, "restore", failing(errno.EACCES))
    with pytest.raises(PermissionError):
        manager.restore()
    monkeypatch.setattr(_restoring, "restore", failing(errno.EIO))
    assert bits(manager.restore()) == bits(run(2))


def _storage_error(message: str, number: int) -> StorageError:
    from treaty.runtime._errors import storage_error

    return storage_error(message, number)


def test_a_step_that_is_not_there_is_an_error(folder: Path) -> None:
    manager = CheckpointManager(folder, Run, read_only=True)
    with pytest.raises(MissingCheckpointError, match="expected step 7, got none that was committed in "):
        manager.restore(7)
    with pytest.raises(MissingCheckpointError, match="expected step 7"):
        manager.metrics(7)


def test_the_metrics_of_a_damaged_step_are_an_error(folder: Path) -> None:
    cut(folder / "3")
    manager = CheckpointManager(folder, Run, read_only=True)
    with pytest.raises(
        CorruptCheckpointError, match=r"expected the metrics of step 3, got a damaged manifest at .*run/3"
    ):
        manager.metrics(3)


def test_a_path_under_the_root_is_not_taken_for_one_of_the_present_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert noted("3") is not None
    assert noted("/3") is None


def test_options_of_restore_and_dims_are_passed_on(tmp_path: Path) -> None:
    with CheckpointManager(tmp_path, Linear, dims={"d_in": 8}) as manager:
        manager.save(1, linear(8, 4))
        manager.wait()
        mesh = Mesh(np.array(jax.devices()[:2]), ("x",))
        found = manager.restore(mesh=mesh, rules={"d_in": "x"})
        assert found.kernel.addressable_shards[0].data.shape == (4, 4)
        assert isinstance(manager.restore(1, into="numpy").kernel, np.ndarray)
    with (
        CheckpointManager(tmp_path, Linear, dims={"d_in": 9}) as manager,
        pytest.raises(StateMismatchError, match="d_in=9"),
    ):
        manager.restore()


def test_a_directory_of_steps_restores_as_its_newest_by_every_reader(folder: Path) -> None:
    assert bits(restore(folder, Run)) == bits(run(3))
    assert inspect(folder).path == str(folder / "3")
    assert verify(folder).path == str(folder / "3")
    assert plan(folder, Run).ok


def test_a_directory_of_steps_is_neither_overwritten_nor_removed_as_one_checkpoint(folder: Path) -> None:
    with pytest.raises(Exception, match="expected a checkpoint or an empty directory, got "):
        save(folder, run(1))
    with pytest.raises(InvalidArgumentError, match="expected a directory with nothing but one checkpoint"):
        remove(folder)
    assert bits(restore(folder, Run)) == bits(run(3))


def test_steps_that_were_saved_by_hand_are_restored_and_never_deleted(tmp_path: Path) -> None:
    for step in (5, 6):
        save(tmp_path / "run" / str(step), run(step))
    assert bits(restore(tmp_path / "run", Run)) == bits(run(6))
    with CheckpointManager(tmp_path / "run", Run, keep_last=1) as manager:
        assert int(manager.restore().step) == 6
        manager.save(7, run(7))
        manager.save(8, run(8))
        manager.wait()
        assert manager.all_steps() == [5, 6, 8]
        assert next((one.step, one.nbytes, one.why) for one in manager.plan()) == (
            5,
            4 + 16 * 16 * 4 + 16 * 4,
            "not saved by a manager",
        )


@pytest.mark.parametrize(("metric", "order", "best"), [("loss", "min", 3), ("loss", "max", 1), ("speed", "max", None)])
def test_the_best_step_is_that_of_the_metric(metric: str, order: Any, best: int | None, folder: Path) -> None:
    manager = CheckpointManager(folder, Run, read_only=True)
    assert manager.best_step(metric, order) == best


def test_the_best_step_needs_to_know_what_is_better(folder: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r'expected order="min" or "max", got none'):
        CheckpointManager(folder, Run, read_only=True).best_step("loss")
    assert CheckpointManager(folder, Run, read_only=True, keep_best=("loss", "min", 1)).best_step("loss") == 3


def test_a_reader_of_another_manager_sees_what_is_committed_and_what_is_gone(folder: Path) -> None:
    reader = CheckpointManager(folder, Run, read_only=True)
    assert reader.all_steps() == [1, 2, 3]
    with CheckpointManager(folder, Run, keep_last=2) as manager:
        manager.save(4, run(4), metrics={"loss": 0.1})
        manager.wait()
        assert reader.all_steps() == [3, 4]
        assert reader.metrics(4) == {"loss": 0.1}
    shutil.rmtree(folder)
    assert reader.latest_step() is None
