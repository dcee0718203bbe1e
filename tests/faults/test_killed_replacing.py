"""SIGKILL before any system call of what replaces a checkpoint of several files, or a directory by another."""

import os
import shutil
from pathlib import Path

import pytest

import treaty.runtime
from tests.faults.places import NEW, NEXT, OLD, some
from tests.faults.saver import How, Saver
from tests.faults.states import Run, bits, run

SAFETENSORS: tuple[tuple[How, How], ...] = (
    ("shards", "shards"),
    ("safetensors", "shards"),
    ("shards", "safetensors"),
)
CONVERTED: tuple[tuple[How, How], ...] = (
    ("to orbax", "to orbax"),
    ("to eformer", "to eformer"),
    ("to treaty", "to orbax"),
    ("to orbax", "to eformer"),
)


@pytest.mark.parametrize(("old", "new"), [*SAFETENSORS, *CONVERTED])
def test_one_whole_checkpoint_is_there_whenever_its_replacement_is_killed(
    old: How, new: How, saver: Saver, tmp_path: Path
) -> None:
    for seed in (OLD, NEW, NEXT):
        treaty.runtime.save(tmp_path / f"source-{seed}.msgpack", run(seed))
    path = tmp_path / "watched" / ("run" if old.startswith("to ") else "run.safetensors")

    def begin() -> None:
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        assert saver.save(path, OLD, how=old).ended == "saved"

    begin()
    total = len(saver.save(path, NEW, how=new).calls)
    found = set()
    for moment in some(total, 10):
        begin()
        outcome = saver.save(path, NEW, how=new, kill_at=moment)
        when = f"killed before {outcome.calls[-1]}, call {moment} of {total}"
        found.add(restored(path, when))
        again = saver.save(path, NEXT, how=new)
        assert (again.ended, again.message) == ("saved", "saved"), when
        assert restored(path, when) == NEXT
        assert litter(path) == [], when
    assert found == {OLD, NEW}


def restored(path: Path, when: str) -> int:
    """Which of the states lies there, bit for bit, also for a reader who is given the folder."""
    for place in [path, path.parent] if path.suffix else [path]:
        try:
            found = treaty.runtime.restore(place, Run)
        except Exception as error:
            raise AssertionError(f"{when}: {error}; there are {sorted(os.listdir(path.parent))}") from error
        seed = int(found.step)
        assert bits(found) == bits(run(seed)), when
        assert seed in (OLD, NEW, NEXT)
    return seed


def litter(path: Path) -> list[str]:
    """What is beside a checkpoint and not part of it."""
    names = sorted(os.listdir(path.parent))
    if path.name in names:
        return [name for name in names if name != path.name]
    index = f"{path.name}.index.json"
    text = (path.parent / index).read_text()
    return [name for name in names if name != index and name not in text]
