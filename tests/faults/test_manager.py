"""A run with a manager is killed at random moments, of saves, deletions and of neither: the newest step is whole, and the next run cleans up."""

import os
import random
import subprocess
import sys
from pathlib import Path

from tests.faults.places import EVERY
from tests.faults.states import Run, bits, run
from treaty.runtime import CheckpointManager, verify

KILLS = 40 if EVERY else 3
TRAINS = """
import sys
from tests.faults.states import LAYOUT, Run, run
from treaty.runtime import CheckpointManager
from treaty.runtime.formats.directory import plan
vars(plan).update(LAYOUT)
with CheckpointManager(sys.argv[1], Run, keep_last=2, keep_every=50) as manager:
    step = -1 if manager.latest_step() is None else int(manager.restore().step)
    while True:
        step += 1
        manager.save(step, run(step))
        print(step, flush=True)
"""


def test_a_killed_run_goes_on_with_its_newest_step_and_leaves_nothing_behind(tmp_path: Path) -> None:
    folder, chance = tmp_path / "run", random.Random(5)
    last = -1
    for _ in range(KILLS):
        asked = train_and_kill(folder, chance.randrange(3, 30))
        reader = CheckpointManager(folder, Run, read_only=True)
        newest = reader.latest_step()
        assert newest is not None
        assert (
            max(last, asked - 1) <= newest <= asked + 1
        )  # of the last two it is not known whether they were committed
        assert bits(reader.restore()) == bits(run(newest))
        last = newest
    with CheckpointManager(folder, Run, keep_last=2, keep_every=50) as manager:
        left = {name for name in os.listdir(folder) if name != ".treaty"}
        assert left == {str(step) for step in manager.all_steps()}
        manager.restore()
        manager.save(last + 1, run(last + 1))
        manager.wait()
        kept = [*range(0, last, 50), last, last + 1]
        assert manager.all_steps() == sorted(set(kept))
    for step in os.listdir(folder):
        if step != ".treaty":
            verify(folder / step)


def train_and_kill(folder: Path, after: int) -> int:
    """The last step that it asked for and told of."""
    command = [sys.executable, "-c", TRAINS, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(after)]
        process.kill()
        said += [int(line) for line in process.stdout.read().splitlines()]
    return said[-1]
