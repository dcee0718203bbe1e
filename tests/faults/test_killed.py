"""SIGKILL before any system call of a save that changes a file."""

from pathlib import Path

from tests.faults.places import NEW, Trial, each_way, some
from tests.faults.saver import How, Saver


@each_way
def test_a_killed_save_leaves_the_last_committed_checkpoint(how: How, old: bool, saver: Saver, tmp_path: Path) -> None:
    total = len(Trial(saver, tmp_path, how, old).save(NEW).calls)
    for moment in some(total, 6):
        trial = Trial(saver, tmp_path, how, old)
        outcome = trial.save(NEW, kill_at=moment)
        committed = trial.committed(outcome.made) is not None
        trial.check([NEW if committed else trial.before], f"killed before {outcome.calls[-1]}, call {moment}")
