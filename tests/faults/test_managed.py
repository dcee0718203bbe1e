"""Faults at every moment of a manager's turn: a linked step is saved, old ones are deleted, and what dead ones left is cleared."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.faults import images
from tests.faults.images import Image
from tests.faults.managed import NEW, OLD, Turn, make_run
from tests.faults.places import EVERY, some
from tests.faults.ptrace import Call
from tests.faults.saver import Saver

strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


@pytest.fixture(scope="session")
def run_of_steps(saver: Saver, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(saver, tmp_path_factory.mktemp("managed"))


def test_a_run_that_is_killed_at_any_call_has_its_newest_step_and_the_next_one_clears_up(
    run_of_steps: Path, saver: Saver, tmp_path: Path
) -> None:
    turn = Turn(saver, run_of_steps, tmp_path)
    calls = turn.save().calls
    assert {call.name for call in calls} >= {"linkat", "rename", "rmdir", "unlinkat"}
    turn.check([NEW], "whole")
    for moment in some(len(calls), 8):
        turn = Turn(saver, run_of_steps, tmp_path)
        outcome = turn.save(kill_at=moment)
        newest = OLD if turn.committed(outcome.made) is None else NEW
        turn.check([newest], f"killed before {outcome.calls[-1]}, call {moment} of {len(calls)}")


def test_a_power_cut_leaves_the_newest_step(run_of_steps: Path, saver: Saver, disk: Image) -> None:
    total = len(Turn(saver, run_of_steps, disk.mounted).save().calls)
    for moment in [*some(total, 3), 0]:
        turn = Turn(saver, run_of_steps, disk.mounted)
        turn.sync()
        outcome = turn.save(cut_at=moment)
        if outcome.ended != "killed":
            images.cut_power(disk.mounted)
        disk.power_on_again()
        turn.check(_possible(turn, outcome.made), f"cut before {outcome.calls[-1]}, call {moment} of {total}")


def _possible(turn: Turn, made: Sequence[Call]) -> list[int]:
    """The old one until the rename, the new one since its directory is on disk, either of them between."""
    renamed = turn.committed(made)
    if renamed is None:
        return [OLD]
    lasting = Call("fsync", (str(turn.path / str(NEW)),)) in made[renamed:]
    return [NEW] if lasting else [OLD, NEW]


def test_a_full_disk_costs_no_step(run_of_steps: Path, saver: Saver, small_disk: Path) -> None:
    ended = []
    for room in some(14, 4):
        turn = Turn(saver, run_of_steps, small_disk)
        turn.clear_remains()  # which would make room
        filler = small_disk / "filler"
        fill_up(filler, room - 1)
        outcome = turn.save()
        filler.unlink()
        when = f"{room - 1} blocks free: {outcome.message}"
        assert outcome.ended == "saved" or "No space left on device" in outcome.message, when
        turn.check([NEW if outcome.ended == "saved" else OLD], when)
        ended.append(outcome.ended)
    assert ended == ["failed"] * ended.count("failed") + ["saved"] * ended.count("saved")
    assert {*ended} == {"failed", "saved"}


def fill_up(filler: Path, room: int) -> None:
    """Leave so many blocks of a file system."""
    block = os.statvfs(filler.parent).f_frsize
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(bytes(block)):
                pass
        except OSError:
            os.fsync(file.fileno())
            os.ftruncate(file.fileno(), (file.tell() // block - room) * block)
            os.fsync(file.fileno())


CALLS = {  # how many of each a thread makes at most, or a little more
    "openat": 48,
    "mkdir": 3,
    "linkat": 3,
    "link": 3,
    "write": 3,
    "writev": 8,
    "pwrite64": 2,
    "fallocate": 3,
    "fsync": 14,
    "rename": 6,
    "close": 48,
    "flock": 10,
    "getdents64": 24,
    "unlink": 4,
    "unlinkat": 12,
    "rmdir": 6,
    "newfstatat": 80,
    "ftruncate": 3,
}
SHORT = ("openat", "fsync", "unlinkat", "newfstatat")
LOOKS = {"openat": 24, "read": 30, "getdents64": 12, "newfstatat": 48, "pread64": 12}


@strace
def test_an_error_of_the_disk_costs_no_step(run_of_steps: Path, saver: Saver, tmp_path: Path) -> None:
    """Of a save, a deletion, or of the list of steps."""
    said = {}
    for fault in faults({call: count for call, count in CALLS.items() if EVERY or call in SHORT}):
        turn = Turn(saver, run_of_steps, tmp_path)
        outcome = turn.save_with_errors(fault)
        turn.check([NEW] if outcome.ended == "saved" else [OLD, NEW], f"{fault}: {outcome.message}")
        said[fault] = outcome.message
    require_words(said, "saved", "StorageError: cannot ")


@strace
def test_a_reader_of_a_disk_with_errors_finds_a_step_or_says_why_not(
    run_of_steps: Path, saver: Saver, tmp_path: Path
) -> None:
    """And never that there is none: a program would begin anew."""
    turn = Turn(saver, run_of_steps, tmp_path)
    said = {fault: turn.look_with_errors(fault).message for fault in faults(LOOKS)}
    require_words(said, "saved", "StorageError: cannot read ", "CorruptCheckpointError: expected a whole step ")
    turn.check([OLD], "after all looks")


def require_words(said: Mapping[str, str], *expected: str) -> None:
    """Of each fault: that all went well, or one of these errors; and that some did not go well."""
    assert {fault: message for fault, message in said.items() if not message.startswith(expected)} == {}
    assert {*said.values()} > {"saved"}


def faults(calls: Mapping[str, int]) -> Iterator[str]:
    for call, count in calls.items():
        first = call == "read"  # by which the saver waits until strace is there
        for number in some(count, 2):
            yield from (f"{call}:error=EIO:when={number + first}{more}" for more in (("", "+") if EVERY else ("+",)))
