"""Several real processes on JAX's distributed runtime: each writes its own shards, one manifest commits them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.directory.states import Train, bits, train
from treaty.runtime.directory import inspect, restore, save, verify

WORKER = ["-m", "tests.multihost.worker"]


def start(action: str, count: int, path: Path, seed: int) -> list[subprocess.CompletedProcess[str]]:
    """Run one action in `count` processes of two devices each, and wait for all."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    processes = [
        subprocess.Popen(
            [sys.executable, *WORKER, action, str(port), str(index), str(count), str(path), str(seed)],
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


def run(action: str, count: int, path: Path, seed: int) -> list[str]:
    """Like `start`, but all must end well; what they printed."""
    done = start(action, count, path, seed)
    for process in done:
        assert process.returncode == 0, process.stderr[-3000:]
    return [process.stdout for process in done]


@pytest.mark.parametrize(("savers", "restorers"), [(2, 3), (3, 4), (4, 2)])
def test_any_number_of_processes_restores_what_any_number_saved(savers: int, restorers: int, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    run("save", savers, path, 5)
    assert inspect(path).metadata == {"processes": savers}
    verify(path)
    assert bits(restore(path, Train)) == bits(train(5))
    assert not list(path.glob("data-*/part-*"))
    run("restore", restorers, path, 5)


def test_what_one_process_saved_restores_on_several_and_async_saves_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    save(path, train(6))
    run("restore", 2, path, 6)
    run("save_async", 2, path, 8)
    assert bits(restore(path, Train)) == bits(train(8))


def test_a_process_killed_in_mid_save_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    run("save", 2, path, 5)
    done = start("die", 2, path, 6)
    assert done[1].returncode == -9
    assert done[0].returncode != 0
    assert bits(restore(path, Train)) == bits(train(5))
    verify(path)
    run("save", 3, path, 7)
    assert bits(restore(path, Train)) == bits(train(7))
    assert len(list(path.glob("data-*"))) == 1


def test_a_process_that_fails_is_named_by_all_and_the_next_save_works(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    first, second, third = run("fail", 3, path, 6)
    told = f"the save of {path} failed on process 1: OSError: [Errno 28] No space left on device"
    assert first == f"0: {told}\n"
    assert second == "1: [Errno 28] No space left on device\n"
    assert third == f"2: process 0 failed to save {path}: TreatyError: {told}\n"
    assert bits(restore(path, Train)) == bits(train(6))


def test_processes_that_save_to_different_places_are_told(tmp_path: Path) -> None:
    _, second = run("disagree", 2, tmp_path, 6)
    assert f"expected all processes to save {tmp_path}/1, got process 0 that saves {tmp_path}/0" in second
