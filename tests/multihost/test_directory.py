"""Several real processes on JAX's distributed runtime: each writes its own shards, one manifest commits them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.multihost.directory_script import shared
from tests.multihost.processes import complete
from tests.runtime.directory.states import Train, bits
from treaty.runtime.directory import inspect, restore, save, verify


def start(count: int, *actions: str) -> list[subprocess.CompletedProcess[str]]:
    return complete([sys.executable, "-m", "tests.multihost.directory_script"], *actions, count=count)


def chunks_of(path: Path) -> dict[str, int]:
    """Which file each chunk is."""
    found = [file for file in path.glob("data-*/*/*") if file.name.startswith("c.")]
    return {f"{file.parent.name}/{file.name}": file.stat().st_ino for file in found}


def run(count: int, *actions: str) -> list[str]:
    """What all processes printed, who must all end well."""
    done = start(count, *actions)
    for process in done:
        assert process.returncode == 0, process.stderr[-3000:]
    return [process.stdout for process in done]


def test_any_number_of_processes_restores_what_any_number_saved(tmp_path: Path) -> None:
    two, three, four = (tmp_path / name for name in ("two", "three", "four"))
    run(2, f"save:2:{two}", f"save_twice:5:{tmp_path}/steps")
    run(3, f"restore:2:{two}", f"save:3:{three}")
    run(4, f"restore:3:{three}", f"restore:2:{two}", f"save:4:{four}")
    save(tmp_path / "one", shared(1))
    run(2, f"restore:4:{four}", f"restore:1:{tmp_path / 'one'}")
    first, second = (chunks_of(tmp_path / "steps" / step) for step in "12")
    assert first == second
    assert bits(restore(tmp_path / "steps" / "2", Train)) == bits(shared(5))
    verify(tmp_path / "steps" / "2")
    for count, path in ((2, two), (3, three), (4, four)):
        assert inspect(path).metadata == {"processes": count}
        assert bits(restore(path, Train)) == bits(shared(count))
        assert not list(path.glob("data-*/part-*"))
        verify(path)


def test_what_all_processes_hold_is_written_by_all(tmp_path: Path) -> None:
    written = [list(map(int, told.split())) for told in run(3, f"save_shared:4:{tmp_path}")]
    for name, counts in zip(("whole", "sharded"), zip(*written, strict=True), strict=True):
        path = tmp_path / name
        assert bits(restore(path, Train)) == bits(shared(4))
        verify(path)
        assert sum(counts) == sum(leaf.nbytes for leaf in inspect(path).leaves if leaf.nbytes >= 64)
        assert max(counts) - min(counts) <= 256, f"each writes its share: {counts}"


@pytest.mark.parametrize(("seed", "victim"), [(6, 1), (7, 0)])
def test_a_process_killed_in_mid_save_leaves_the_previous_checkpoint(seed: int, victim: int, tmp_path: Path) -> None:
    """Nothing can be told any more: JAX ends the others when a heartbeat is missing."""
    path = tmp_path / "checkpoint"
    save(path, shared(5))
    done = start(2, f"die:{seed}:{path}")
    assert done[victim].returncode == -9
    assert done[1 - victim].returncode != 0
    assert bits(restore(path, Train)) == bits(shared(5))
    verify(path)
    assert len(list(path.glob("data-*"))) == 2
    save(path, shared(8))
    assert bits(restore(path, Train)) == bits(shared(8))
    assert len(list(path.glob("data-*"))) == 1


def test_failures_are_named_by_all_processes_and_the_next_saves_work(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    first, second, third = run(3, f"fail:6:{path}", f"disagree:6:{tmp_path}", f"save_async:8:{path}")
    told = f"the save of {path} failed on process 1: OSError: [Errno 28] No space left on device"
    assert first.splitlines()[0] == told
    assert second.splitlines()[0] == "[Errno 28] No space left on device"
    assert third.splitlines()[0] == told
    assert f"the save of {tmp_path}/0 failed on process 1: TreatyError: expected all processes" in first
    assert f"expected all processes to save {tmp_path}/1, got process 0 that saves {tmp_path}/0" in second
    assert not (tmp_path / "0" / "treaty.json").exists()
    assert bits(restore(path, Train)) == bits(shared(8))
