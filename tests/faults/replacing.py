"""A checkpoint that takes the place of another one of several files, and what must be there if it is stopped."""

import os
import shutil
from pathlib import Path
from typing import Final

import treaty.runtime
from tests.faults.places import NEW, NEXT, OLD
from tests.faults.saver import How, Outcome, Saver
from tests.faults.states import Run, bits, run

SAFETENSORS: Final[tuple[tuple[How, How], ...]] = (
    ("shards", "shards"),
    ("safetensors", "shards"),
    ("shards", "safetensors"),
)
CONVERTED: Final[tuple[tuple[How, How], ...]] = (
    ("to orbax", "to orbax"),
    ("to treaty", "to eformer"),
)


class Replacement:
    """One place in a folder, with the old checkpoint there."""

    def __init__(self, saver: Saver, folder: Path, old: How, new: How) -> None:
        self.saver, self.new = saver, new
        self.path = folder / "watched" / ("run" if old.startswith("to ") else "run.safetensors")
        shutil.rmtree(self.path.parent, ignore_errors=True)
        self.path.parent.mkdir()
        for seed in (OLD, NEW, NEXT) if new.startswith("to ") else ():
            treaty.runtime.save(folder / f"source-{seed}.msgpack", run(seed))
        assert saver.save(self.path, OLD, how=old).ended == "saved"

    def save(self, seed: int = NEW, *, kill_at: int = 0, cut_at: int = 0) -> Outcome:
        folder = self.path.parent.parent if cut_at else None
        return self.saver.save(self.path, seed, how=self.new, folder=folder, kill_at=kill_at, cut_at=cut_at)

    def found(self, when: str) -> int:
        """Which of the states is there, bit for bit, also for a reader who is given the folder."""
        for place in [self.path, self.path.parent] if self.path.suffix else [self.path]:
            try:
                restored = treaty.runtime.restore(place, Run)
            except Exception as error:
                there = sorted(os.listdir(self.path.parent))
                raise AssertionError(f"{when}: {error}; there are {there}") from error
            seed = int(restored.step)
            assert bits(restored) == bits(run(seed)), when
        return seed

    def check_next(self, when: str) -> None:
        """The next save works, and leaves nothing behind."""
        again = self.save(NEXT)
        assert again.ended == "saved", (when, again.message)
        assert self.found(when) == NEXT
        assert self.litter() == [], when

    def litter(self) -> list[str]:
        """What is beside the checkpoint and not part of it."""
        names = sorted(os.listdir(self.path.parent))
        if self.path.name in names:
            return [name for name in names if name != self.path.name]
        index = f"{self.path.name}.index.json"
        text = (self.path.parent / index).read_text()
        return [name for name in names if name != index and name not in text]
