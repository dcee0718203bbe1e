"""What a fault is tried on: a place for checkpoints, what lies there, and what must lie there afterwards."""

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest

import treaty.runtime
from tests.faults.ptrace import Call
from tests.faults.saver import How, Outcome, Saver
from tests.faults.states import Run, bits, run
from treaty.runtime import IncompleteCheckpointError
from treaty.runtime.directory import restore, verify

EVERY: Final = os.environ.get("TREATY_FAULTS") == "every"
WAYS: Final[tuple[How, ...]] = ("save", "save_async", "msgpack")
_EACH: Final = [(how, old) for how in WAYS for old in (False, True)]
ROUND: Final = int(os.environ.get("TREATY_FAULTS_ROUND", "0"))  # of `python -m tests.faults`: other states in each
OLD, NEW, NEXT = (3 * ROUND + seed for seed in (1, 2, 3))
_D_IN: Final = 16 + 8 * (ROUND % 4)  # and of other sizes, so that a save makes more calls


def some(total: int, count: int) -> Sequence[int]:
    """`count` of the numbers 1 to `total`, evenly spread, both ends included; with `make faults` all of them."""
    if EVERY or total <= count:
        return range(1, total + 1)
    return sorted({1 + round(i * (total - 1) / (count - 1)) for i in range(count)})


class Trial:
    """One place in a folder. With `old`, a checkpoint is there already."""

    def __init__(self, saver: Saver, folder: Path, how: How, old: bool, d_in: int = _D_IN) -> None:
        self.saver = saver
        self.how = how
        self.folder = folder / "checkpoints"
        # The first save has to make directories, too, except for a file, whose directory must be there.
        self.path = self.folder / ("run.msgpack" if how == "msgpack" else "run/last")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        _sync(self.folder.parent)
        if how == "linked":
            base = self.saver.save(self.base, NEW, how="base", d_in=d_in)
            assert base.ended == "saved", base.message
        self.before = OLD if old else None
        if old:
            assert self.save(OLD).ended == "saved"

    @property
    def base(self) -> Path:
        return self.folder / "base"

    def save(self, seed: int, *, kill_at: int = 0, cut_at: int = 0, d_in: int = _D_IN) -> Outcome:
        where = self.folder.parent if cut_at else self.folder
        return self.saver.save(self.path, seed, how=self.how, folder=where, kill_at=kill_at, cut_at=cut_at, d_in=d_in)

    def found(self) -> int | None:
        """Which of the states lies here, bit for bit; None if there is no checkpoint. Anything else raises."""
        try:
            if self.how == "msgpack":
                restored = treaty.runtime.restore(self.path, Run)
            else:
                restored = restore(self.path, Run)
                verify(self.path)
        except (IncompleteCheckpointError, FileNotFoundError):
            return None
        seed = int(restored.step)
        assert bits(restored) == bits(run(seed, restored.kernel.shape[0]))
        return seed

    def check(self, expected: Iterable[int | None], moment: object) -> None:
        """One of the expected states is here, and the next save works and leaves nothing behind."""
        assert self.found() in expected, moment
        again = self.save(NEXT)
        assert again.ended == "saved", (moment, again.message)
        assert self.found() == NEXT, moment
        if self.how == "msgpack":
            assert os.listdir(self.folder) == [self.path.name], moment
        else:
            assert len(os.listdir(self.path)) == 2, (moment, os.listdir(self.path))
        if self.how == "linked":
            verify(self.base)

    def committed(self, calls: Sequence[Call]) -> int | None:
        """The index of the call that commits, if it is among these."""
        name = str(self.path if self.how == "msgpack" else self.path / "treaty.json")
        found = [i for i, call in enumerate(calls) if call.name == "rename" and call.paths[1] == name]
        return found[0] if found else None


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


_NAMES: Final[dict[object, object]] = {False: "first", True: "overwriting"}
each_way = pytest.mark.parametrize(("how", "old"), [*_EACH, ("linked", True)], ids=lambda one: _NAMES.get(one, one))
each_way_to_link = pytest.mark.parametrize(
    ("how", "old"), [*_EACH, ("linked", True), ("base and linked", True)], ids=lambda one: _NAMES.get(one, one)
)
both = pytest.mark.parametrize("old", [False, True], ids=["first", "overwriting"])
