"""The power fails before any system call of a save that changes a file, and right after the save."""

import os
from collections.abc import Sequence

import pytest

from tests.faults import images
from tests.faults.images import Image
from tests.faults.places import NEW, OLD, Trial, each_way_to_link, some
from tests.faults.ptrace import Call
from tests.faults.replacing import Replacement
from tests.faults.saver import How, Saver


@each_way_to_link
def test_a_power_cut_leaves_the_last_committed_checkpoint(how: How, old: bool, saver: Saver, disk: Image) -> None:
    total = len(Trial(saver, disk.mounted, how, old).save(NEW).calls)
    for moment in some(total, 4):
        trial = Trial(saver, disk.mounted, how, old)
        outcome = trial.save(NEW, cut_at=moment)
        if outcome.ended != "killed":  # threads take turns: it may make a call less than the first time
            images.cut_power(disk.mounted)
        disk.power_on_again()
        trial.check(_possible(trial, outcome.made), f"cut before {outcome.calls[-1]}, call {moment}")


@each_way_to_link
def test_a_save_that_has_returned_survives_a_power_cut(how: How, old: bool, saver: Saver, disk: Image) -> None:
    trial = Trial(saver, disk.mounted, how, old)
    assert trial.save(NEW).ended == "saved"
    images.cut_power(disk.mounted)
    disk.power_on_again()
    trial.check([NEW], "cut after the save")


def _possible(trial: Trial, made: Sequence[Call]) -> list[int | None]:
    """The old one until the rename, the new one since its directory is on disk, either of them between."""
    renamed = trial.committed(made)
    if renamed is None:
        return [trial.before]
    lasting = Call("fsync", (str(trial.path.parent if trial.how == "msgpack" else trial.path),)) in made[renamed:]
    return [NEW] if lasting else [trial.before, NEW]


@pytest.mark.parametrize(("old", "new"), [("shards", "shards"), ("shards", "safetensors"), ("to orbax", "to orbax")])
def test_a_power_cut_leaves_the_replaced_or_the_new_checkpoint(old: How, new: How, saver: Saver, disk: Image) -> None:
    total = len(Replacement(saver, disk.mounted, old, new).save().calls)
    for moment in [*some(total, 3), 0]:
        one = Replacement(saver, disk.mounted, old, new)
        os.sync()
        outcome = one.save(cut_at=moment)
        if outcome.ended != "killed":
            images.cut_power(disk.mounted)
        disk.power_on_again()
        when = f"cut before {outcome.calls[-1]}, call {moment} of {total}"
        assert one.found(when) in ([OLD, NEW] if outcome.ended == "killed" else [NEW]), when
        one.check_next(when)
