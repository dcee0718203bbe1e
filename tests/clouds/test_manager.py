"""A manager of steps in an object store does what one of a directory does."""

import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests.clouds.conftest import Cloud
from tests.clouds.faults import Answer, Gone
from tests.faults.states import Run, bits, run
from tests.report.pages import data_of
from treaty.runtime import CheckpointManager, InvalidArgumentError, TreatyError, inspect, report, restore, save
from treaty.runtime._manager import lease as _lease
from treaty.runtime.formats.directory import owner as _owner

ENDS = """
import atexit, os, sys, warnings
from tests.faults.states import Run, run
from treaty.runtime import CheckpointManager
from treaty.runtime._manager import lease
lease.RENEW = 0.001
manager = CheckpointManager(sys.argv[1], Run)
manager.save(1, run(1))
manager.wait()
warnings.simplefilter("ignore")  # that forking with threads is dangerous
child = os.fork()
if child == 0:
    atexit._run_exitfuncs()
    os._exit(0)  # what TensorStore does when a fork ends is another matter
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
LOCK = r"(PUT|POST) .*/\.treaty/lock"


@pytest.fixture
def elsewhere(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """A lock that a manager of another machine has."""
    monkeypatch.setattr(_lease, "LEASE", 0.05)
    monkeypatch.setattr(_lease, "LOOK", 0.02)
    cloud.write(
        ".treaty/lock",
        json.dumps({"process": 7, "host": "other", "since": "1970", "owner": "data-0123456789abcdef"}).encode(),
    )
    return cloud


def test_steps_are_saved_listed_kept_and_restored(cloud: Cloud) -> None:
    with CheckpointManager(cloud.url, Run, keep_last=2, keep_best=("loss", "min", 1)) as manager:
        assert manager.latest_step() is None
        for step in range(1, 6):
            manager.save(step, run(step), metrics={"loss": 0.1 if step == 2 else step})
        manager.wait()
        assert manager.all_steps() == [2, 4, 5]
        assert manager.metrics(2) == {"loss": 0.1}
        assert manager.best_step("loss") == 2
        assert [one.why for one in manager.plan()] == ["min loss (1 of 1)", "keep_last=2", "newest, keep_last=2"]
    assert cloud.names == {".treaty", "2", "4", "5"}
    assert [key for key in cloud.keys if key.startswith(".treaty/")] == [
        ".treaty/rules.json",
        ".treaty/steps/2",
        ".treaty/steps/4",
        ".treaty/steps/5",
    ]
    assert bits(restore(cloud.url, Run)) == bits(run(5))
    assert inspect(cloud.url).path == f"{cloud.url}/5"
    page = data_of(report(cloud.url))
    assert [(one["step"], one["kept"]) for one in page["run"]["steps"]] == [(2, True), (4, True), (5, True)]
    assert [head["path"] for head in page["checkpoints"]] == [f"{cloud.url}/5"]
    assert data_of(report(f"{cloud.url}/4"))["checkpoints"][0]["metrics"] == {"loss": 4}


def test_listing_reads_no_name_of_a_chunk(cloud: Cloud) -> None:
    with CheckpointManager(cloud.url, Run) as manager:
        manager.save(1, run(1))
    cloud.faults.clear()
    assert CheckpointManager(cloud.url, Run, read_only=True).latest_step() == 1
    assert not any("data-" in request for request in cloud.faults.requests)


def test_a_save_asks_for_each_step_that_rules_could_delete_once_and_without_rules_for_none(cloud: Cloud) -> None:
    def asked(step: int) -> int:
        return sum(f"/{step}/treaty.json" in one or f"%2F{step}%2Ftreaty.json" in one for one in cloud.faults.requests)

    for rules, count in (({}, 0), ({"keep_last": 9}, 1)):
        with CheckpointManager(cloud.url, Run, **dict[str, Any](rules)) as manager:
            first = 1 + (manager.latest_step() or 0)
            for step in range(first, first + 3):
                manager.save(step, run(step))
            manager.wait()
            cloud.faults.clear()
            manager.save(first + 3, run(first + 3))
            manager.wait()
            assert [asked(step) for step in range(1, first + 2)] == [count] * (first + 1)


def test_a_step_that_may_not_be_read_is_left_and_keeps_no_other(cloud: Cloud) -> None:
    with CheckpointManager(cloud.url, Run) as manager:
        for step in (1, 2, 3):
            manager.save(step, run(step))
    cloud.faults.on(r"(GET|HEAD) .*/2/treaty\.json", Answer(403))
    with CheckpointManager(cloud.url, Run, keep_last=1) as manager:
        manager.save(4, run(4))
        manager.wait()
        assert [(one.step, one.why) for one in manager.plan()] == [
            (2, "cannot be read, and left as it is"),
            (4, "newest, keep_last=1"),
        ]
    assert cloud.names == {".treaty", "2", "4"}


def test_a_step_that_was_never_finished_is_none_and_the_next_manager_removes_it(cloud: Cloud) -> None:
    with CheckpointManager(cloud.url, Run) as manager:
        for step in (1, 2, 3):
            manager.save(step, run(step))
    cloud.write("3/treaty.json", None)
    cloud.write("2/treaty.json", b'{"treaty":"removed","by":"0"}\n')
    assert CheckpointManager(cloud.url, Run, read_only=True).all_steps() == [1]
    assert bits(restore(cloud.url, Run)) == bits(run(1))
    with CheckpointManager(cloud.url, Run) as manager:
        assert cloud.names == {".treaty", "1"}
        manager.save(2, run(2))
    assert bits(restore(cloud.url, Run)) == bits(run(2))


def test_pins_and_other_objects_keep_a_step(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    with CheckpointManager(cloud.url, Run) as manager:
        for step in (1, 2, 3):
            manager.save(step, run(step))
    CheckpointManager(cloud.url, Run, read_only=True).pin(1)
    cloud.write("2/notes.txt", b"precious")
    with CheckpointManager(cloud.url, Run, keep_last=1) as manager:
        manager.save(4, run(4))
        manager.wait()
        assert manager.all_steps() == [1, 2, 4]
        assert "step 2 of" in caplog.text
        manager.unpin(1)
        manager.save(5, run(5))
    assert cloud.names == {".treaty", "2", "5"}
    assert cloud.read("2/notes.txt") == b"precious"


def test_a_second_writer_is_an_error_and_a_dead_one_of_this_machine_does_not_block(cloud: Cloud) -> None:
    first = CheckpointManager(cloud.url, Run)
    with pytest.raises(InvalidArgumentError, match="to be free, got a manager that writes to it of process "):
        CheckpointManager(cloud.url, Run)
    first.save(1, run(1))
    first.wait()
    said = json.loads(cloud.read(".treaty/lock"))
    _owner.release_name(said["owner"])  # as if its process had died
    with CheckpointManager(cloud.url, Run) as second:
        second.save(2, run(2))
        with pytest.raises(TreatyError, match=r"expected to hold the lock of .*, got that of another manager or none"):
            first.save(3, run(3))
    first.close()
    assert ".treaty/lock" not in cloud.keys
    assert CheckpointManager(cloud.url, Run, read_only=True).all_steps() == [1, 2]


def test_a_step_that_another_manager_cleared_away_while_it_was_written_is_not_committed(cloud: Cloud) -> None:
    def taken_over() -> None:
        _owner.release_name(json.loads(cloud.read(".treaty/lock"))["owner"])
        CheckpointManager(cloud.url, Run).close()

    first = CheckpointManager(cloud.url, Run)
    cloud.faults.on(r"(PUT|POST) .*/1/data-.*/values\.msgpack", taken_over, times=1)
    first.save(1, run(1))
    with pytest.raises(TreatyError, match="got another save that finished meanwhile"):
        first.close()
    assert CheckpointManager(cloud.url, Run, read_only=True).all_steps() == []


def test_a_step_that_is_pinned_while_it_is_deleted_stays(cloud: Cloud) -> None:
    with CheckpointManager(cloud.url, Run, keep_last=1) as manager:
        manager.save(1, run(1))
        manager.wait()
        reader = CheckpointManager(cloud.url, Run, read_only=True)
        cloud.faults.on(r"(PUT|POST) .*/1/treaty\.json", lambda: reader.pin(1), times=1)
        manager.save(2, run(2))
        manager.wait()
        assert manager.all_steps() == [1, 2]
        assert bits(reader.restore(1)) == bits(run(1))
        reader.unpin(1)
        manager.save(3, run(3))
    assert cloud.names == {".treaty", "3"}


def test_a_silent_manager_of_another_machine_is_taken_for_dead(elsewhere: Cloud) -> None:
    with CheckpointManager(elsewhere.url, Run) as manager:
        manager.save(1, run(1))
    assert CheckpointManager(elsewhere.url, Run, read_only=True).all_steps() == [1]


def test_one_of_another_machine_that_renews_its_lock_is_alive(elsewhere: Cloud) -> None:
    first: list[Any] = []

    def renew() -> None:
        if first:
            return
        first.append(1)
        elsewhere.write(".treaty/lock", elsewhere.read(".treaty/lock") + b" ")

    elsewhere.faults.on(r"GET .*/\.treaty/lock|GET .*lock.*alt=media", renew, skip=1, times=1)
    with pytest.raises(InvalidArgumentError, match="of process 7 on other"):
        CheckpointManager(elsewhere.url, Run)


@pytest.fixture
def renewing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lease, "RENEW", 0.01)


def renewed(cloud: Cloud) -> None:
    """Return when the lock was written once more."""
    before = cloud.read(".treaty/lock")
    while cloud.read(".treaty/lock") == before:
        pass


@pytest.mark.usefixtures("renewing")
def test_a_lock_is_renewed_while_a_save_or_a_restore_takes_its_time_and_when_nothing_is_called(cloud: Cloud) -> None:
    with CheckpointManager(cloud.url, Run) as manager:
        renewed(cloud)
        cloud.faults.on(r"(PUT|POST) .*/1/data-", lambda: renewed(cloud), times=1)
        manager.save(1, run(1))
        manager.wait()
        cloud.faults.on(r"GET .*/1/data-", lambda: renewed(cloud), times=1)
        manager.restore()


@pytest.mark.parametrize("cloud", ["s3"], indirect=True)
def test_a_program_that_ends_without_closing_its_manager_ends(cloud: Cloud) -> None:
    line = [sys.executable, "-c", ENDS, cloud.url]
    done = subprocess.run(line, capture_output=True, text=True, env=dict(os.environ), timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "child 0\n"), done.stderr
    with CheckpointManager(cloud.url, Run) as manager:  # its lock is a dead one's
        assert manager.all_steps() == [1]


@pytest.mark.usefixtures("renewing")
def test_a_renewal_that_fails_is_no_error_of_a_call_that_saves_nothing_and_is_tried_again(cloud: Cloud) -> None:
    failed = threading.Event()
    with CheckpointManager(cloud.url, Run, every=2) as manager:
        cloud.faults.on(LOCK, failed.set, times=1)
        cloud.faults.on(LOCK, Answer(403))
        assert failed.wait(60)
        assert not manager.save(1, run(1))
        cloud.faults.clear()
        renewed(cloud)
        assert manager.save(2, run(2))


@pytest.mark.usefixtures("renewing")
def test_a_renewal_that_was_done_without_an_answer_leaves_the_lock_its_managers(cloud: Cloud) -> None:
    with CheckpointManager(cloud.url, Run) as manager:
        cloud.faults.on(LOCK, Gone(is_done=True))
        renewed(cloud)
        cloud.faults.clear()
        assert manager.save(1, run(1))
        manager.wait()
        renewed(cloud)
    assert ".treaty/lock" not in cloud.keys


def test_a_manager_that_lost_its_lock_deletes_nothing(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    with CheckpointManager(cloud.url, Run, keep_last=1) as manager:
        manager.save(1, run(1))
        manager.wait()
        cloud.faults.on(r"(PUT|POST) .*/2/treaty\.json", lambda: cloud.write(".treaty/lock", b"{}"), skip=1, times=1)
        manager.save(2, run(2))
        manager.wait()
        assert manager.all_steps() == [1, 2]
        assert f"{cloud.url} could not be tidied up: expected to hold the lock" in caplog.text
    assert cloud.read(".treaty/lock") == b"{}"


@pytest.mark.skipif(_owner.started(os.getpid()) is None, reason="needs a system that tells when a process was started")
def test_the_lock_of_a_dead_process_whose_number_is_used_again_does_not_block(cloud: Cloud) -> None:
    other = os.getppid()
    said: dict[str, Any] = {"process": other, "host": "here", "since": "1970"}
    said["owner"] = f"data-{_owner._machine()}{other & 0xFFFFFF:06x}0000"
    for started in ({}, {"started": _owner.started(other)}):
        cloud.write(".treaty/lock", json.dumps({**said, **started}).encode())
        with pytest.raises(InvalidArgumentError, match=f"of process {other} on here"):
            CheckpointManager(cloud.url, Run)
    cloud.write(".treaty/lock", json.dumps({**said, "started": 0}).encode())
    CheckpointManager(cloud.url, Run).close()
    assert ".treaty/lock" not in cloud.keys


def test_a_store_that_does_not_answer_is_one_error_at_the_next_call(cloud: Cloud) -> None:
    with CheckpointManager(cloud.url, Run) as manager:
        cloud.faults.on("(PUT|POST) .*1.*data-", Answer(403))
        manager.save(1, run(1))
        with pytest.raises(TreatyError, match="cannot write"):
            manager.wait()
        cloud.faults.clear()
        assert manager.save(2, run(2))
    assert CheckpointManager(cloud.url, Run, read_only=True).all_steps() == [2]


def test_one_checkpoint_is_no_prefix_of_steps(cloud: Cloud) -> None:
    save(cloud.url, run(1))
    with pytest.raises(InvalidArgumentError, match="expected a prefix of steps, got one checkpoint at "):
        CheckpointManager(cloud.url, Run)
