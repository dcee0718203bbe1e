"""Kills a process at each step of a save, and lets two save to one path: `python -m tests.attacks.crashes DIRECTORY`.

Each attempt is a child of this process, so that nothing is imported again. After each the file must be whole: the
previous state or the new one, and never a third thing.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.runtime.test_files import SUFFIXES, Model, model
from treaty.runtime import restore, save
from treaty.runtime._storage import files as _files

STEPS = ("open", "posix_fallocate", "writev", "write", "fsync", "close", "replace")


def child(work: Callable[[], None]) -> int:
    """Run in a process of its own; returns its id."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def killed_at(step: int, path: Path, state: Model) -> Callable[[], None]:
    left = step

    def counted(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    def work() -> None:
        for name in STEPS:
            setattr(os, name, counted(getattr(os, name)))
        blocks = _files._blocks
        _files._blocks = lambda pieces: map(counted(lambda block: block), blocks(pieces))
        save(path, state)

    return work


def whole(path: Path, *states: Model) -> int:
    """Which of the states the file has."""
    found = restore(path, Model, into="numpy")
    for index, one in enumerate(states):
        if all(np.array_equal(a.kernel, b.kernel) for a, b in zip(found.layers, one.layers, strict=True)):
            return index
    raise AssertionError(f"{path} holds neither state")


def kill_everywhere(path: Path) -> None:
    old, new = model(1, layers=6, size=32), model(2, layers=6, size=32)
    seen = []
    for step in range(1, 200):
        save(path, old)
        _, status = os.waitpid(child(killed_at(step, path, new)), 0)
        if not os.WIFSIGNALED(status):
            break
        seen.append(whole(path, old, new))
        for left in path.parent.glob(".*.tmp"):  # what a killed process cannot clean up
            left.unlink()
        assert len(list(path.parent.iterdir())) == 1
    assert whole(path, old, new) == 1
    assert 0 in seen
    assert seen == sorted(seen)
    print(
        f"{path.name}: killed at 1 to {len(seen)}, the new state from {seen.index(1) + 1 if 1 in seen else 'the end'} on"
    )


def race(path: Path) -> None:
    states = [model(1, layers=6, size=32), model(2, layers=6, size=32)]
    save(path, states[0])

    def again_and_again(state: Model) -> Callable[[], None]:
        def work() -> None:
            for _ in range(15):
                save(path, state)

        return work

    running = {child(again_and_again(state)) for state in states}
    reads = [0, 0]
    while running:
        reads[whole(path, *states)] += 1
        pid, status = os.waitpid(-1, os.WNOHANG)
        assert status == 0
        running.discard(pid)
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    print(f"{path.name}: two writers, read {reads[0]} times one state and {reads[1]} times the other")


def main() -> None:
    for suffix in SUFFIXES:
        for attack in (kill_everywhere, race):
            directory = Path(sys.argv[1]) / f"{attack.__name__}{suffix}"
            directory.mkdir()
            attack(directory / f"model{suffix}")


if __name__ == "__main__":
    main()
