"""One manager writes to a directory, signals are noticed and given back, and forks are no managers."""

import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.faults.states import Run, run
from treaty.runtime import CheckpointManager, InvalidArgumentError, TreatyError

HOLDS = """
import sys
from tests.faults.states import Run, run
from treaty.runtime import CheckpointManager
manager = CheckpointManager(sys.argv[1], Run)
manager.save(1, run(1))
manager.wait()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def calls() -> Iterator[list[int]]:
    """What a handler that the program had before has heard."""
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))
    yield heard
    signal.signal(signal.SIGUSR1, before)


def test_a_second_writer_is_an_error_that_names_the_first_and_a_dead_one_does_not_block(folder: Path) -> None:
    command = [sys.executable, "-c", HOLDS, str(folder)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(InvalidArgumentError, match=f"got a manager that writes to it of process {other.pid} on "):
            CheckpointManager(folder, Run)
        assert CheckpointManager(folder, Run, read_only=True).latest_step() == 1
        other.kill()
        other.wait()
    with CheckpointManager(folder, Run) as manager:
        manager.save(2, run(2))


def test_a_second_writer_of_the_same_process_is_an_error_until_the_first_is_closed(folder: Path) -> None:
    first = CheckpointManager(folder, Run)
    with pytest.raises(InvalidArgumentError, match="pass read_only=True to look only"):
        CheckpointManager(folder, Run)
    first.close()
    CheckpointManager(folder, Run).close()


def test_a_signal_is_noticed_chained_and_makes_the_next_call_save_once(folder: Path, calls: list[int]) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with CheckpointManager(folder, Run, every=100, on_preemption=[signal.SIGUSR1]) as manager:
        assert not manager.save(1, run(1))
        assert not manager.preempted()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert manager.preempted()
        assert str(manager.save(2, run(2))) == "saved: the process is to end"
        assert not manager.save(3, run(3))
        assert manager.preempted()
    assert calls == [signal.SIGUSR1]
    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_signal_between_save_and_preempted_ends_the_loop_after_the_next_save(folder: Path, calls: list[int]) -> None:
    with CheckpointManager(folder, Run, every=100, on_preemption=[signal.SIGUSR1]) as manager:
        for step in range(1, 10):
            manager.save(step, run(step))
            if step == 3:
                os.kill(os.getpid(), signal.SIGUSR1)
            if manager.preempted():
                break
    assert calls
    assert CheckpointManager(folder, Run, read_only=True).all_steps() == [4]


@pytest.mark.parametrize("saves_at", [100, 3, 2])
def test_one_who_does_not_save_at_every_step_hears_of_a_signal_and_saves_by_force(
    saves_at: int, folder: Path, calls: list[int]
) -> None:
    with CheckpointManager(folder, Run, on_preemption=[signal.SIGUSR1]) as manager:
        for step in range(1, 10):
            if step % saves_at == 0:
                manager.save(step, run(step))
            if step == 3:
                os.kill(os.getpid(), signal.SIGUSR1)
            if manager.preempted():
                manager.save(step, run(step), force=True)
                break
        assert calls
        manager.wait()
        assert manager.latest_step() == step == (4 if saves_at == 3 else 3)


def test_a_save_for_a_signal_that_was_refused_is_made_by_the_next_call(folder: Path, calls: list[int]) -> None:
    wrong: Any = {"step": 1}
    with CheckpointManager(folder, Run, every=100, on_preemption=[signal.SIGUSR1]) as manager:
        os.kill(os.getpid(), signal.SIGUSR1)
        with pytest.raises((TreatyError, TypeError)):
            manager.save(1, wrong)
        assert calls
        assert not manager.preempted()
        assert str(manager.save(2, run(2))) == "saved: the process is to end"
        assert manager.preempted()


def test_a_handler_that_came_later_keeps_ours_below_it_which_then_only_passes_on(
    folder: Path, calls: list[int]
) -> None:
    manager = CheckpointManager(folder, Run, on_preemption=[signal.SIGUSR1])
    ours: Any = signal.getsignal(signal.SIGUSR1)
    later: Callable[[int, FrameType | None], None] = lambda number, frame: ours(number, frame)  # noqa: E731
    signal.signal(signal.SIGUSR1, later)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert manager.preempted()
    manager.close()
    assert signal.getsignal(signal.SIGUSR1) is later
    os.kill(os.getpid(), signal.SIGUSR1)
    assert len(calls) == 2


def test_sigterm_does_not_end_the_process_while_a_manager_notices_it_and_does_so_in_a_fork(folder: Path) -> None:
    with CheckpointManager(folder, Run, on_preemption=True) as manager:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that forking with threads is dangerous
            child = os.fork()
        if child == 0:
            signal.alarm(20)
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        assert not manager.preempted()
        os.kill(os.getpid(), signal.SIGTERM)
        assert manager.preempted()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_handlers_are_for_the_main_thread_and_nothing_is_held_where_they_cannot_be(folder: Path) -> None:
    errors: list[BaseException] = []

    def make() -> None:
        try:
            CheckpointManager(folder, Run, on_preemption=True)
        except InvalidArgumentError as error:
            errors.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert "expected the main thread" in str(errors[0])
    with CheckpointManager(folder, Run) as manager, pytest.raises(InvalidArgumentError, match="on_preemption=True"):
        manager.preempted()


def test_a_fork_is_told_to_make_its_own(folder: Path) -> None:
    manager = CheckpointManager(folder, Run)
    manager.save(1, run(1))
    manager.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(20)
            manager.close()  # gives nothing back that is the parent's
            try:
                manager.save(2, run(2))
            except Exception as error:
                code = 0 if "got a fork of it" in str(error) else 2
            if CheckpointManager(folder, Run, read_only=True).all_steps() != [1]:
                code = 3
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(InvalidArgumentError, match="to be free"):
        CheckpointManager(folder, Run)
    manager.close()
