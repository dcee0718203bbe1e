"""Several real processes on JAX's distributed runtime: each writes its own shards, one manifest commits them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.multihost.worker import shared
from tests.runtime.directory.states import Train, bits
from treaty.runtime.directory import inspect, restore, save, verify


def start(count: int, *actions: str) -> list[subprocess.CompletedProcess[str]]:
    """Run actions in `count` processes of two devices each, and wait for all."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.multihost.worker", str(port), str(index), str(count), *actions],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(count)
    ]
    outputs = [process.communicate(timeout=300) for process in processes]
    pairs = zip(processes, outputs, strict=True)
    return [subprocess.CompletedProcess(one.args, one.returncode, *output) for one, output in pairs]


def run(count: int, *actions: str) -> list[str]:
    """Like `start`, but all must end well; what they printed."""
    done = start(count, *actions)
    for process in done:
        assert process.returncode == 0, process.stderr[-3000:]
    return [process.stdout for process in done]


def test_any_number_of_processes_restores_what_any_number_saved(tmp_path: Path) -> None:
    two, three, four = (tmp_path / name for name in ("two", "three", "four"))
    run(2, f"save:2:{two}")
    run(3, f"restore:2:{two}", f"save:3:{three}")
    run(4, f"restore:3:{three}", f"restore:2:{two}", f"save:4:{four}")
    save(tmp_path / "one", shared(1))
    run(2, f"restore:4:{four}", f"restore:1:{tmp_path / 'one'}")
    for count, path in ((2, two), (3, three), (4, four)):
        assert inspect(path).metadata == {"processes": count}
        assert bits(restore(path, Train)) == bits(shared(count))
        assert not list(path.glob("data-*/part-*"))
        verify(path)


def test_a_process_killed_in_mid_save_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    save(path, shared(5))
    done = start(2, f"die:6:{path}")
    assert done[1].returncode == -9
    assert done[0].returncode != 0
    assert bits(restore(path, Train)) == bits(shared(5))
    verify(path)
    assert len(list(path.glob("data-*"))) == 2
    save(path, shared(7))
    assert bits(restore(path, Train)) == bits(shared(7))
    assert len(list(path.glob("data-*"))) == 1


def test_failures_are_named_by_all_processes_and_the_next_saves_work(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    first, second, third = run(3, f"fail:6:{path}", f"disagree:6:{tmp_path}", f"save_async:8:{path}")
    told = f"the save of {path} failed on process 1: OSError: [Errno 28] No space left on device"
    assert first.splitlines()[0] == told
    assert second.splitlines()[0] == "[Errno 28] No space left on device"
    assert third.splitlines()[0] == f"process 0 failed to save {path}: TreatyError: {told}"
    assert f"the save of {tmp_path}/0 failed on process 1: TreatyError: expected all processes" in first
    assert f"expected all processes to save {tmp_path}/1, got process 0 that saves {tmp_path}/0" in second
    assert not (tmp_path / "0" / "treaty.json").exists()
    assert bits(restore(path, Train)) == bits(shared(8))
