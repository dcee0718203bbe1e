"""System calls of a save that fail with an input/output error: one of them, or all from one on."""

import shutil
from pathlib import Path
from typing import Literal

import pytest

from tests.faults.places import EVERY, NEW, WAYS, Trial, both, some
from tests.faults.saver import How, Saver

CALLS = {  # how many of each a thread makes at most, or a little more
    "openat": 24,
    "mkdir": 3,
    "write": 3,
    "writev": 8,
    "fallocate": 1,
    "fsync": 10,
    "rename": 6,
    "close": 24,
    "flock": 2,
    "getdents64": 12,
    "unlink": 2,
    "unlinkat": 8,
    "rmdir": 2,
    "newfstatat": 24,
}
SHORT = ("openat", "mkdir", "writev", "fsync", "rename", "close", "unlinkat")


@pytest.fixture(scope="module", autouse=True)
def strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")


@both
@pytest.mark.parametrize("threads", ["main", "all"])
@pytest.mark.parametrize("how", WAYS)
def test_an_error_leaves_the_last_committed_checkpoint(
    how: How, threads: Literal["main", "all"], old: bool, saver: Saver, tmp_path: Path
) -> None:
    failed = 0
    for call in CALLS if EVERY else SHORT:
        for number in some(CALLS[call], 2):
            for when in (f"{number}", f"{number}+"):
                trial = Trial(saver, tmp_path, how, old)
                fault = f"{call}:error=EIO:when={when}"
                outcome = saver.save_with_errors(trial.path, NEW, fault, threads=threads, how=how)
                assert outcome.ended in ("saved", "failed"), fault
                failed += outcome.ended == "failed"
                possible = [NEW] if outcome.ended == "saved" else [trial.before, NEW]
                trial.check(possible, f"{fault} of {threads}: {outcome.message}")
    assert failed
