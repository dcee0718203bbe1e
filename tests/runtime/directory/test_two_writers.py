"""Two saves at once where locks do not reach from one to the other, as on a network file system that two hosts mount."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.directory.states import Train, bits, train
from treaty.runtime.directory import restore, save, verify
from treaty.runtime.formats.directory.owner import is_dead, release_name, take_name


class Other:
    """The other writer, a real process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.runtime.directory.other_writer"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def begin(self, path: Path, seed: int, stop: str, *, elsewhere: bool = True, skip: int = 0) -> Path:
        """Save until it stops; the data that it makes."""
        before = set(path.glob("data-*"))
        self._say(json.dumps({"path": str(path), "seed": seed, "stop": stop, "elsewhere": elsewhere, "skip": skip}))
        assert self._hear() == "stopped"
        (data,) = set(path.glob("data-*")) - before
        return data

    def go_on(self) -> str:
        self._say("")
        return self._hear()

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def _hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")


@pytest.fixture(scope="module")
def other() -> Iterator[Other]:
    one = Other()
    yield one
    one.process.kill()
    one.process.communicate()


def holds(path: Path, seed: int) -> None:
    """The checkpoint of a seed, and nothing else."""
    assert bits(restore(path, Train)) == bits(train(seed))
    verify(path)
    assert sorted(os.listdir(path)) == [json.loads((path / "treaty.json").read_bytes())["data"], "treaty.json"]


@pytest.mark.parametrize("elsewhere", [True, False])
@pytest.mark.parametrize("stop", ["writing", "committing"])
def test_the_second_to_commit_fails_and_leaves_the_first_alone(
    stop: str, elsewhere: bool, checkpoint: Path, other: Other
) -> None:
    data = other.begin(checkpoint, 2, stop, elsewhere=elsewhere)
    save(checkpoint, train(3))
    assert data.exists()
    told = other.go_on()
    assert told == (
        f"failed: expected treaty.json as it was when the save began, got another one in {checkpoint}: "
        "another save took the place meanwhile, and is left as it is"
    )
    holds(checkpoint, 3)


def test_the_first_save_of_all_is_no_exception(tmp_path: Path, other: Other) -> None:
    path = tmp_path / "new"
    data = other.begin(path, 2, "committing")
    save(path, train(3))
    assert data.exists()
    assert "another save took the place meanwhile" in other.go_on()
    holds(path, 3)


def test_a_save_that_cleans_up_late_does_not_remove_the_next_checkpoint(checkpoint: Path, other: Other) -> None:
    """It has committed; before it cleans, another save of the same process has begun and ended."""
    other.begin(checkpoint, 2, "cleaning", skip=1)
    save(checkpoint, train(3))
    assert other.go_on() == "saved"
    assert bits(restore(checkpoint, Train)) == bits(train(3))
    verify(checkpoint)


def test_data_that_went_away_is_not_committed(checkpoint: Path, other: Other) -> None:
    data = other.begin(checkpoint, 2, "committing")
    chunk = next(data.glob("*/c.*"))
    chunk.write_bytes(chunk.read_bytes()[:-1])
    name = f"{data.name}/{chunk.parent.name}/{chunk.name}"
    told = other.go_on()
    assert told.startswith(f"failed: expected {name} as it was written, got something else in {checkpoint}: another")
    assert bits(restore(checkpoint, Train)) == bits(train(1))
    assert not data.exists()


def test_what_a_save_of_another_host_left_goes_when_it_is_old(checkpoint: Path, other: Other) -> None:
    """Whether that host is dead cannot be known; its data is removed when nothing in it has changed for long."""
    data = other.begin(checkpoint, 2, "committing")
    save(checkpoint, train(3))
    assert data.exists()
    for folder, _, files in os.walk(data):
        for name in [*files, "."]:
            os.utime(os.path.join(folder, name), (0, 0))
    young = next(data.glob("*/c.*"))
    os.utime(young)
    save(checkpoint, train(4))
    assert data.exists()
    os.utime(young, (0, 0))
    save(checkpoint, train(5))
    assert not data.exists()
    assert other.go_on().startswith("failed: ")
    holds(checkpoint, 5)


def test_a_name_says_whether_its_process_is_dead() -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    name = take_name()
    assert not is_dead(name)
    release_name(name)
    assert is_dead(name)
    machine = name[5:11]
    assert is_dead(f"data-{machine}{int(gone.stdout):06x}0000")
    assert not is_dead(f"data-{machine}{os.getppid():06x}0000")
    assert not is_dead(f"data-{machine}0000010000")
    assert not is_dead(f"data-{int(machine, 16) ^ 1:06x}{int(gone.stdout):06x}0000")
