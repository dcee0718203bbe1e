"""What the main thread has done by its helper: interrupted, given back, and at the very end of the interpreter."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.faults.states import Run, run
from treaty.runtime import CheckpointManager
from treaty.runtime._manager import lock as _lock
from treaty.runtime._process.forks import try_lock

HANG = 60.0

LATE = """
import os
from treaty.runtime._process.uninterrupted import uninterrupted
from treaty.runtime._process.workers import in_threads

@uninterrupted
def work():
    return in_threads("late", str, [1, 2])

class Late:
    def __del__(self, work=work, write=os.write):
        write(1, repr(work()).encode())

work()
late = Late()
"""


def test_a_lock_whose_taker_was_interrupted_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = threading.Event()

    def interrupt(*_: object) -> None:
        seen.set()
        raise KeyboardInterrupt

    def interrupted(descriptor: int) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        assert seen.wait(HANG)
        return try_lock(descriptor)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with monkeypatch.context() as changed:
            changed.setattr(_lock, "try_lock", interrupted)
            with pytest.raises(KeyboardInterrupt):
                CheckpointManager(tmp_path / "run", Run)
    finally:
        signal.signal(signal.SIGINT, before)
    with CheckpointManager(tmp_path / "run", Run) as manager:
        manager.save(1, run(1))


def test_what_is_asked_for_while_the_interpreter_ends_waits_for_no_thread() -> None:
    """As by a generator that is suspended inside `with`, and is closed when the globals of the script go."""
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=HANG)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "['1', '2']")


SAVING_HANDLER = """
import socket, sys
import jax
from tests.faults.states import Run, run
from treaty.runtime import save_async
from treaty.runtime._process import background, coordinator

with socket.create_server(("localhost", 0)) as free:
    port = free.getsockname()[1]
jax.distributed.initialize(f"localhost:{port}", num_processes=1, process_id=0)
inside = []

def at_each_line(handler):
    def step(frame, event, _):
        if not frame.f_code.co_filename.endswith(("background.py", "coordinator.py")):
            return None
        if event == "line" and not inside:
            inside.append(frame.f_lineno)  # as a signal's handler, which another signal may not interrupt
            handler()
            inside.pop()
        return step
    return step

def saved():
    save_async(sys.argv[1] + "/b", run(2)).result()

handle = save_async(sys.argv[1] + "/a", run(1))
handle._finished.wait()
sys.settrace(at_each_line(saved))
handle.result()
sys.settrace(None)

turns = []
sys.settrace(at_each_line(lambda: turns.append(coordinator.take_turn()[1])))
turns.append(coordinator.take_turn()[1])
sys.settrace(None)
assert len(turns) > 5 and sorted(turns) == list(range(len(turns))), turns
print("ended")
"""


def test_a_signal_handler_may_save_while_the_main_thread_does(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SAVING_HANDLER, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
