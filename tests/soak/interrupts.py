"""Interrupts at random moments of saves and restores: `python -m tests.soak.interrupts --count 1000 [--kinds …] [--seed …]`.

A real signal, by the system's timer, comes in the middle of each call, and its handler raises KeyboardInterrupt or
SystemExit. Afterwards nothing is left behind, the old or the new checkpoint is there, and the next save works.
"""

import argparse
import faulthandler
import gc
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from tests.soak.kinds import KINDS, Kind, begin
from tests.soak.states import Training, at_step, step_of
from treaty.runtime._process.uninterrupted import uninterrupted

HANG = 120.0  # seconds that no call takes


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--kinds", default=",".join(name for name in KINDS if name != "steps"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _raise)
    campaign = Campaign(random.Random(options.seed), options.folder or Path(tempfile.mkdtemp()))
    kinds = options.kinds.split(",")
    for name in kinds:
        campaign.prepare(name)
    number = 0
    while campaign.interrupted < options.count:
        number += 1
        faulthandler.dump_traceback_later(HANG, exit=True)
        name = kinds[number % len(kinds)]
        try:
            campaign.once(name)
        except BaseException:
            print(f"seed {options.seed}, call {number}, {name}, in {campaign.folder}", file=sys.stderr)
            raise
    faulthandler.cancel_dump_traceback_later()
    print(f"{number} calls, {campaign.interrupted} interrupted, {campaign.old} old, {campaign.new} new")


_count = 0
_left = 1  # signals until the timer stops
_is_armed = False  # or the campaign itself would be interrupted


def _raise(_: int, __: FrameType | None) -> None:
    global _count, _left
    if not _is_armed:
        return
    _count += 1
    _left -= 1
    if _left <= 0:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if _count % 3 == 0:
        sys.exit("told to end")
    raise KeyboardInterrupt


class Campaign:
    def __init__(self, chance: random.Random, folder: Path) -> None:
        self.folder = folder
        self.interrupted = self.old = self.new = 0
        self._chance = chance
        self._steps: dict[str, int] = {}
        self._seconds: dict[tuple[str, bool], float] = {}

    def prepare(self, name: str) -> None:
        kind, folder = KINDS[name], self.folder / name
        begin(folder, kind, 1)
        self._steps[name] = 2
        for is_save in (True, False):
            started = time.perf_counter()
            _save(kind, folder, at_step(2)) if is_save and name != "orbax" else kind.restore(folder)
            self._seconds[name, is_save] = time.perf_counter() - started
        if name == "orbax":
            kind.save(folder, at_step(2))

    def once(self, name: str) -> None:
        kind, folder = KINDS[name], self.folder / name
        before, after = self._steps[name], self._steps[name] + 1
        is_save = self._chance.random() < 0.75
        state = at_step(after)
        descriptors = _descriptors()
        was = self._interrupt(
            (lambda: _save(kind, folder, state)) if is_save else (lambda: kind.restore(folder)),
            self._seconds[name, is_save] * self._chance.uniform(0, 1.1),
        )
        self._check_nothing_left(kind, folder, descriptors)
        found = step_of(kind.restore(folder))
        if found not in ((before, after) if is_save else (before,)) or (is_save and not was and found != after):
            raise AssertionError(f"expected step {before} or {after}, got {found}")
        self.interrupted += was
        self.old += was and found == before
        self.new += was and found == after
        if found == before or self._chance.random() < 0.2:
            after = found + 1
            _save(kind, folder, at_step(after))  # it can still save
            found = step_of(kind.restore(folder))
            assert found == after, (found, after)
        self._steps[name] = found

    def _interrupt(self, call: Callable[[], object], delay: float) -> bool:
        """Whether the signal came in time. Now and then it comes several times, as of somebody who has lost patience."""
        global _left, _is_armed
        seen = _count
        _left = self._chance.choice((1, 1, 1, 4))
        try:
            _is_armed = True
            signal.setitimer(signal.ITIMER_REAL, max(delay, 1e-6), 2e-4)
            call()
            _is_armed = False
        except (KeyboardInterrupt, SystemExit):
            _is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        return _count != seen

    def _check_nothing_left(self, kind: Kind, folder: Path, descriptors: int) -> None:
        uninterrupted(lambda: None)()  # comes after what the helper may still be at
        for thread in threading.enumerate():
            if thread.name == "treaty-save":
                thread.join()  # what was saving in the background goes on
        ours = [one.name for one in threading.enumerate() if one.name.startswith("treaty-")]
        if _descriptors() > descriptors:
            gc.collect()  # what was restored in part is mapped for as long as it lives
        extra = list(kind.extra(folder))
        extra += [name for name in os.listdir(self.folder) if name.endswith(".tmp")]
        if ours or extra or _descriptors() > descriptors + 2:  # JAX and the system open some themselves
            raise AssertionError(f"left: threads {ours}, files {extra}, {descriptors} -> {_descriptors()} descriptors")


def _save(kind: Kind, folder: Path, state: Training) -> None:
    kind.save(folder, state)
    kind.wait(folder)


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


if __name__ == "__main__":
    main()
