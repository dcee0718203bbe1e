"""A run whose steps a manager keeps, and one turn of it for faults to come into: it clears what dead ones have left, saves a step
that is linked to the one before, takes the old step's name, and deletes it."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.faults.places import ROUND
from tests.faults.ptrace import Call
from tests.faults.saver import How, Outcome, Saver
from tests.faults.states import Run, bits, later
from treaty.runtime import CheckpointManager, verify

PINNED, OLD, NEW, NEXT = (4 * ROUND + step for step in range(4))
_FOREIGN: Final = ("007", "notes.txt")
_HOME: Final = ["lock", "pins", "rules.json"]
_TRASH: Final = f".{PINNED}.0123456789ab.removed"


def make_run(saver: Saver, folder: Path) -> Path:
    """A run of two steps, the first of them pinned, with foreign files, and with what was left by a save and a deletion
    that were killed."""
    path = folder / "as it was" / "run"
    for step in (PINNED, OLD):
        assert saver.save(path, step, how="step", folder=path).ended == "saved"
    with CheckpointManager(path, Run, read_only=True) as reader:
        reader.pin(PINNED)
    total = saver.save(path, NEW, how="step", folder=path / str(NEW)).calls
    shutil.rmtree(path / str(NEW))
    killed = saver.save(path, NEW, how="step", folder=path / str(NEW), kill_at=2 * len(total) // 3)
    assert killed.ended == "killed"
    assert not (path / str(NEW) / "treaty.json").exists()
    shutil.copytree(path / str(PINNED), path / _TRASH)
    (path / _TRASH / "treaty.json").unlink()
    (path / "007").mkdir()
    (path / "007" / "treaty.json").write_text("not ours")
    (path / "notes.txt").write_text("precious")
    return path


class Turn:
    """A copy of such a run in a folder, and what must be there after a turn of it, however that ended."""

    def __init__(self, saver: Saver, run: Path, folder: Path) -> None:
        self.saver = saver
        self.folder = folder / "runs"
        self.path = self.folder / "run"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        subprocess.run(["cp", "-a", run, self.path], check=True)  # with its hard links, and times

    def sync(self) -> None:
        subprocess.run(["sync", "--file-system", self.path], check=True)

    def clear_remains(self) -> None:
        for name in (_TRASH, str(NEW)):
            shutil.rmtree(self.path / name)

    def save(self, step: int = NEW, *, kill_at: int = 0, cut_at: int = 0) -> Outcome:
        how: How = "step, keep_last=1"
        watched = self.folder.parent if cut_at else self.folder
        return self.saver.save(self.path, step, how=how, folder=watched, kill_at=kill_at, cut_at=cut_at)

    def save_with_errors(self, inject: str) -> Outcome:
        return self.saver.save_with_errors(self.path, NEW, inject, how="step, keep_last=1")

    def look_with_errors(self, inject: str) -> Outcome:
        return self.saver.save_with_errors(self.path, NEW, inject, how="look at steps")

    def check(self, newest: Iterable[int], when: object) -> None:
        """The newest committed step is one of these and whole, and so is all that is kept; the next turn leaves nothing else."""
        found = self._whole(when)
        assert found[-1] in newest, (when, found)
        assert PINNED in found, (when, found)
        again = self.save(NEXT)
        assert again.ended == "saved", (when, again.message)
        assert self._whole(when) == [PINNED, NEXT], when
        there = sorted(os.listdir(self.path))
        assert there == sorted([".treaty", str(PINNED), str(NEXT), *_FOREIGN]), (when, there)
        assert (self.path / "007" / "treaty.json").read_text() == "not ours", when
        assert (self.path / "notes.txt").read_text() == "precious", when
        for step in (PINNED, NEXT):
            assert len(os.listdir(self.path / str(step))) == 2, when
        assert sorted(os.listdir(self.path / ".treaty")) == _HOME, (when, os.listdir(self.path / ".treaty"))
        assert os.listdir(self.path / ".treaty" / "pins") == [str(PINNED)], when

    def _whole(self, when: object) -> list[int]:
        """The committed steps, each of which is restored bit for bit."""
        reader = CheckpointManager(self.path, Run, read_only=True)
        found = reader.all_steps()
        for step in found:
            assert bits(reader.restore(step)) == bits(later(step)), (when, step)
            verify(self.path / str(step))
        assert bits(reader.restore()) == bits(later(found[-1])), when
        return found

    def committed(self, calls: Sequence[Call]) -> int | None:
        """The index of the call that commits the new step, if it is among these."""
        name = str(self.path / str(NEW) / "treaty.json")
        return next((i for i, one in enumerate(calls) if one.name == "rename" and one.paths[1] == name), None)
