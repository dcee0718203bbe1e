"""One process of a program whose steps a manager keeps: run by test_manager.py with a directory."""

import errno
import os
import signal
import sys
from pathlib import Path
from typing import Any

import jax
import pytest
from jax.experimental import multihost_utils

from tests.multihost.directory_script import RULES, mesh, shared, spread
from tests.runtime.directory.states import Train
from treaty.runtime import CheckpointManager, InvalidArgumentError, MissingCheckpointError, restore
from treaty.runtime._errors import storage_error
from treaty.runtime._manager import decisions as _decisions
from treaty.runtime._manager import restoring as _restoring
from treaty.runtime._manager import steps as _steps
from treaty.runtime.formats.directory import plan as _plan
from treaty.schema import TreatyError

FOLDER = Path(sys.argv[5])
INDEX = jax.process_index()
ASIDE: Any = multihost_utils  # which has no types
vars(_plan).update(SMALL_BYTES=64, CHUNK_BYTES=256)


def together(what: str) -> None:
    ASIDE.sync_global_devices(what)


class Clock:
    """Of each process its own: the second one is a year ahead."""

    now = 100.0 + INDEX * 3e7

    def monotonic(self) -> float:
        return self.now


def restored(manager: CheckpointManager[Train]) -> int:
    found = manager.restore(mesh=mesh(), rules=RULES)
    return int(found.step.addressable_data(0))


def steps_are_saved_together_and_kept_by_rules() -> None:
    with CheckpointManager(FOLDER / "a", Train, every=2, keep_last=2, timeout=60) as manager:
        with pytest.raises(TreatyError if INDEX else MissingCheckpointError):
            manager.restore()
        said = [bool(manager.save(step, spread(shared(step)), metrics={"loss": INDEX + step})) for step in range(1, 9)]
        assert said == [False, True] * 4
        manager.wait()
        together("saved")
        assert manager.all_steps() == [6, 8]
        assert manager.metrics(8) == {"loss": 8.0}
        assert restored(manager) == 8


def a_step_that_is_damaged_for_one_is_skipped_by_all() -> None:
    """Process 1 alone reads the chunk that is damaged."""
    if INDEX == 0:
        for chunk in (FOLDER / "a" / "8").glob("data-*/*/c.*"):
            if chunk.name.startswith("c.1"):
                content = chunk.read_bytes()
                chunk.unlink()
                chunk.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    together("damaged")
    with CheckpointManager(FOLDER / "a", Train, read_only=True, timeout=60) as manager:
        assert restored(manager) == 6
        assert manager.restored_step == 6


def a_step_that_one_may_not_read_is_an_error_of_all() -> None:
    def refused(path: str, *args: Any, **options: Any) -> Any:
        if INDEX == 1 and path.endswith("/6"):
            raise storage_error("cannot read it", errno.EACCES)
        return restore(path, *args, **options)

    vars(_restoring)["restore"] = refused
    manager = CheckpointManager(FOLDER / "a", Train, read_only=True, timeout=60)
    for step in (None, 6):  # 8 is damaged
        with pytest.raises(TreatyError, match=r"cannot read it$") as raised:
            manager.restore(step, mesh=mesh(), rules=RULES)
        assert isinstance(raised.value, PermissionError) == (INDEX == 1)
    vars(_restoring)["restore"] = restore


def process_0_says_where_a_step_is() -> None:
    """As on a network file system, which shows process 1 an old list."""
    names_at = vars(_steps)["names_at"]
    if INDEX == 1:
        vars(_steps)["names_at"] = lambda path: []
    manager = CheckpointManager(FOLDER / "a", Train, read_only=True, timeout=60)
    assert int(manager.restore(6, mesh=mesh(), rules=RULES).step.addressable_data(0)) == 6
    with pytest.raises(MissingCheckpointError, match="expected step 7, got none"):
        manager.restore(7)
    vars(_steps)["names_at"] = names_at


def a_forced_save_that_fails_leaves_the_words_for_a_slow_process() -> None:
    with CheckpointManager(FOLDER / "g", Train, timeout=60) as manager:
        manager.save(1, spread(shared(1)))
        manager.wait()
        together("saved once")
        if INDEX == 0:
            (FOLDER / "g" / "1" / "notes.txt").touch()
        else:
            together("process 0 is through")
        manager.save(1, spread(shared(1)), force=True)
        with pytest.raises(TreatyError, match=r"got notes\.txt in "):
            manager.wait()
        if INDEX == 0:
            together("process 0 is through")


def seconds_are_those_of_process_0(clock: Clock) -> None:
    with CheckpointManager(FOLDER / "b", Train, every_s=60, timeout=60) as manager:
        said = []
        for step in range(1, 5):
            clock.now += 40 if INDEX == 0 else 0
            said.append(bool(manager.save(step, spread(shared(step)))))
        assert said == [False, True, False, True], said


def a_signal_to_one_is_known_to_all() -> None:
    with CheckpointManager(FOLDER / "c", Train, every=100, on_preemption=True, timeout=60) as manager:
        assert not manager.save(1, spread(shared(1)))
        assert not manager.preempted()
        together("before the signal")
        if INDEX == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        said: list[str] = []
        while not said or not manager.preempted():
            together("the next step")
            step = 2 + len(said)
            said.append(str(manager.save(step, spread(shared(step)))))
        assert len(said) <= 2  # process 1 passes it on, maybe when process 0 has decided already
        assert said[-1] == "saved: the process is to end"
        assert not manager.save(9, spread(shared(9)))
    together("preempted")
    assert CheckpointManager(FOLDER / "c", Train, read_only=True).all_steps() == [1 + len(said)]


def what_fails_on_process_0_is_raised_by_all() -> None:
    lock = CheckpointManager(FOLDER / "d", Train, timeout=60)
    with pytest.raises(InvalidArgumentError if INDEX == 0 else TreatyError, match="got a manager that writes to it"):
        CheckpointManager(FOLDER / "d", Train, timeout=60)
    if INDEX == 0:
        (FOLDER / "d" / "1").write_text("in the way")
    together("in the way")
    lock.save(1, spread(shared(1)))
    with pytest.raises(TreatyError, match="got a file at"):
        lock.save(2, spread(shared(2)))
    assert lock.save(2, spread(shared(2)))
    lock.close()


def processes_that_differ_hear_of_it_before_their_steps_are_mixed() -> None:
    for differs, said in (
        ({"every": 2 + INDEX}, "every=2 on process 0, every=3 on process 1"),
        ({"on_preemption": not INDEX}, r"on_preemption=\[15\] on process 0, on_preemption=\[\] on process 1"),
        ({"read_only": bool(INDEX)}, "read_only=False on process 0, read_only=True on process 1"),
        ({"compress": "zstd" if INDEX else None}, "compress=None on process 0, compress='zstd' on process 1"),
    ):
        with pytest.raises(InvalidArgumentError, match=f"the same arguments on every process, got {said}$"):
            CheckpointManager(FOLDER / "e", Train, timeout=60, **dict[str, Any](differs))
    assert not (FOLDER / "e").exists()
    same = spread(shared(1))
    with CheckpointManager(FOLDER / "f", Train, timeout=60) as manager:
        manager.save(5 + INDEX, same)
        with pytest.raises(TreatyError, match="process 1 saves 6 as its step, process 0 5; every process must save"):
            manager.wait()
        manager.save(7, same)
        manager.wait()
        together("saved as 7")
        assert manager.all_steps() == [7]


def nothing_is_left_at_the_coordinator() -> None:
    from jax._src import distributed

    client: Any = distributed.global_state.client
    together("all is done")
    left = [key for key, _ in client.key_value_dir_get("treaty/council/") if "noticed" not in key]
    assert len(left) < 80, left


clock = Clock()
steps_are_saved_together_and_kept_by_rules()
a_step_that_is_damaged_for_one_is_skipped_by_all()
a_step_that_one_may_not_read_is_an_error_of_all()
process_0_says_where_a_step_is()
a_forced_save_that_fails_leaves_the_words_for_a_slow_process()
vars(_decisions)["time"] = clock
seconds_are_those_of_process_0(clock)
a_signal_to_one_is_known_to_all()
what_fails_on_process_0_is_raised_by_all()
processes_that_differ_hear_of_it_before_their_steps_are_mixed()
nothing_is_left_at_the_coordinator()
