"""A disk that fills up while a save writes."""

import os
from pathlib import Path

from tests.faults.places import NEW, Trial, each_way, some
from tests.faults.saver import How, Saver

PAGE = os.sysconf("SC_PAGESIZE")


@each_way
def test_a_full_disk_leaves_the_last_committed_checkpoint(how: How, old: bool, saver: Saver, full_disk: Path) -> None:
    failed = 0
    moments = some(_pages_needed(saver, full_disk, how), 4)
    for pages in moments:
        trial = Trial(saver, full_disk, how, old, d_in=64)
        filler = full_disk / "filler"
        filler.write_bytes(bytes(_free(full_disk) - (pages - 1) * PAGE))
        outcome = trial.save(NEW, d_in=64)
        if outcome.ended == "failed":
            failed += 1
            assert "No space left on device" in outcome.message
            assert str(trial.path) in outcome.message
            assert trial.found() == trial.before
        filler.unlink()
        trial.check([trial.before if outcome.ended == "failed" else NEW], f"{pages - 1} pages free")
    assert failed > len(moments) / 2


def _pages_needed(saver: Saver, full_disk: Path, how: How) -> int:
    trial = Trial(saver, full_disk, how, old=False, d_in=64)
    free = _free(full_disk)
    assert trial.save(NEW, d_in=64).ended == "saved"
    return (free - _free(full_disk)) // PAGE + 1


def _free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_bsize
