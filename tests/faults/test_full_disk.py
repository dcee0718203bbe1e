"""A disk that fills up while a save writes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import images
from tests.faults.places import NEW, WAYS, Trial, both, some
from tests.faults.saver import How, Saver

PAGE = os.sysconf("SC_PAGESIZE")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with images.tmpfs(tmp_path / "tmpfs", 64 * PAGE) as folder:
        yield folder


@both
@pytest.mark.parametrize("how", WAYS)
def test_a_full_disk_leaves_the_last_committed_checkpoint(how: How, old: bool, saver: Saver, memory: Path) -> None:
    failed = 0
    needed = _pages_needed(saver, memory, how)
    for pages in some(needed, 6):
        trial = Trial(saver, memory, how, old)
        filler = memory / "filler"
        filler.write_bytes(bytes(_free(memory) - (pages - 1) * PAGE))
        outcome = trial.save(NEW, d_in=64)
        if outcome.ended == "failed":
            failed += 1
            assert "No space left on device" in outcome.message
            assert trial.found() == trial.before
        filler.unlink()
        trial.check([trial.before if outcome.ended == "failed" else NEW], f"{pages - 1} pages free")
    assert failed > len(some(needed, 6)) / 2


def _pages_needed(saver: Saver, memory: Path, how: How) -> int:
    free = _free(memory)
    assert Trial(saver, memory, how, old=False).save(NEW, d_in=64).ended == "saved"
    return (free - _free(memory)) // PAGE + 1


def _free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_bsize
