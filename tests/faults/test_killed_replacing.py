"""SIGKILL before any system call of what replaces a checkpoint of several files, or a directory by another."""

from pathlib import Path

import pytest

from tests.faults.places import NEW, OLD, some
from tests.faults.replacing import CONVERTED, SAFETENSORS, Replacement
from tests.faults.saver import How, Saver


@pytest.mark.parametrize(("old", "new"), [*SAFETENSORS, *CONVERTED])
def test_one_whole_checkpoint_is_there_whenever_its_replacement_is_killed(
    old: How, new: How, saver: Saver, tmp_path: Path
) -> None:
    total = len(Replacement(saver, tmp_path, old, new).save().calls)
    found = set()
    for moment in some(total, 6):
        one = Replacement(saver, tmp_path, old, new)
        outcome = one.save(kill_at=moment)
        when = f"killed before {outcome.calls[-1]}, call {moment} of {total}"
        found.add(one.found(when))
        one.check_next(when)
    assert found == {OLD, NEW}
