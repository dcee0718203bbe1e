"""System calls of a save that fail with an input/output error: one of them, or all from one on."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import pytest

from tests.faults.places import EVERY, NEW, Trial, both, some
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
SHORT = ("openat", "writev", "fsync", "rename")


@pytest.fixture(scope="module", autouse=True)
def strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")


@both
@pytest.mark.parametrize(
    ("how", "threads"), [("save", "main"), ("save", "all"), ("save_async", "all"), ("msgpack", "all")]
)
def test_an_error_leaves_the_last_committed_checkpoint(
    how: How, threads: Literal["main", "all"], old: bool, saver: Saver, tmp_path: Path
) -> None:
    failed = 0
    for fault in _faults(["once", "from then on"] if EVERY else ["once" if threads == "main" else "from then on"]):
        trial = Trial(saver, tmp_path, how, old)
        outcome = saver.save_with_errors(trial.path, NEW, fault, threads=threads, how=how)
        assert outcome.ended in ("saved", "failed"), fault
        failed += outcome.ended == "failed"
        possible = [NEW] if outcome.ended == "saved" else [trial.before, NEW]
        trial.check(possible, f"{fault} of {threads}: {outcome.message}")
    assert failed


def test_the_process_can_save_again_after_an_error(saver: Saver, tmp_path: Path) -> None:
    retried = []
    for fault in _faults(["once"]):
        if not fault.startswith("close"):  # strace lets it fail without closing, which Linux never does
            trial = Trial(saver, tmp_path, "save", old=True)
            outcome = saver.save_with_errors(trial.path, NEW, fault, threads="main", retry=True)
            retried += [outcome.retried] if outcome.ended == "failed" else []
            assert outcome.ended == "saved" or outcome.retried == "saved", (fault, outcome)
            trial.check([NEW], fault)
    assert retried


def test_a_save_that_can_not_even_tidy_up_gives_its_lock_back(saver: Saver, tmp_path: Path) -> None:
    trial = Trial(saver, tmp_path, "save", old=True)
    retried = []
    for first in range(1, 13):
        fault = f"openat:error=EIO:when={first}..{first + 1}"
        outcome = saver.save_with_errors(trial.path, NEW, fault, threads="main", retry=True)
        retried += [outcome.retried] if outcome.ended == "failed" else []
    assert retried
    assert not [message for message in retried if "another save" in message]


def _faults(times: Sequence[str]) -> Iterator[str]:
    for call in CALLS if EVERY else SHORT:
        for number in some(CALLS[call], 2):
            yield from (f"{call}:error=EIO:when={number}{'' if time == 'once' else '+'}" for time in times)
