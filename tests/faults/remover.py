"""Kills `remove` before each of its changes: `python -m tests.faults.remover FOLDER`, where FOLDER/KIND holds a checkpoint.

A line is printed for each kill: the kind, the step, and what was there then. Each attempt is a fork of this process,
which never uses TensorStore itself, whose threads a fork would lose.
"""

import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.runtime.test_files import Model
from treaty.runtime import MissingCheckpointError, TreatyError, inspect, restore
from treaty.runtime._checkpoint import remove as _remove

CHANGES = ("rename", "unlink", "rmdir", "fsync")


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")  # of forks
    for kind in sorted(folder.iterdir()):
        for step in range(1, 99):
            work = folder.parent / "work"
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(kind, work)
            path = work / kind.name.split(":")[-1]
            killed = _forked(partial(_killed_at, step, path))
            state = {0: "gone", 1: "whole", 2: "mixed"}.get(_forked(partial(_state, path)), "crashed")
            again = _forked(partial(_remove_again, path))
            print(kind.name, step, state, "finished" if again == 0 else "failed", os.listdir(work), flush=True)
            if killed == 0:
                break


def _killed_at(step: int, path: Path) -> int:
    left = step

    def counted(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    for name in CHANGES:
        setattr(os, name, counted(getattr(os, name)))
    _remove.remove(path)
    return 0


def _state(path: Path) -> int:
    """0: nothing can be restored, and `inspect` says so; 1: all of it can be; 2: they do not agree."""
    seen = _works(lambda: inspect(path))
    whole = _works(lambda: restore(path, Model, into="numpy"))
    return int(whole) if seen == whole else 2


def _works(look: Callable[[], object]) -> bool:
    try:
        return look() is not None
    except TreatyError:
        return False


def _remove_again(path: Path) -> int:
    with suppress(MissingCheckpointError):  # it had come to its end
        _remove.remove(path)
    return 0


def _forked(work: Callable[[], int]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 9
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
