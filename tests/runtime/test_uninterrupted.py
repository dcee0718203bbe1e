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

    real = _lock.try_lock

    def interrupted(descriptor: int) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        assert seen.wait(HANG)
        return real(descriptor)

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
