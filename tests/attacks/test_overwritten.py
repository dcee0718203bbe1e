"""Readers of every format while another process overwrites it: whole checkpoints of one step, or an error that says why."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from jaxtyping import Float32

from tests.attacks.overwriter import DIRECTORIES, NAMES, tree
from tests.faults.places import EVERY
from treaty.generator import load
from treaty.runtime import restore
from treaty.runtime._convert.convert import convert
from treaty.runtime._convert.diff import diff
from treaty.runtime.commands.checkpoints import inspect, verify
from treaty.runtime.formats import msgpack
from treaty.schema import TreatyError, state
from treaty.schema.keymap import KeyMap, Rule

ROUNDS = 300 if EVERY else 6
STAYS = "expected a checkpoint that stays"


@state
class Layers:
    layer0: Float32[np.ndarray, "n"]
    layer1: Float32[np.ndarray, "n"]
    layer2: Float32[np.ndarray, "n"]
    layer3: Float32[np.ndarray, "n"]
    layer4: Float32[np.ndarray, "n"]
    layer5: Float32[np.ndarray, "n"]


load(Layers)
SAME = KeyMap(tuple(Rule(name, name) for name in tree(1)))


@pytest.fixture(scope="module")
def overwritten(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("overwritten")
    command = [sys.executable, "-m", "tests.attacks.overwriter", str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
        yield folder
        _, errors = one.communicate("", timeout=60)
    assert one.returncode == 0, errors


def check(found: Any) -> None:
    arrays = found if isinstance(found, dict) else {name: getattr(found, name) for name in tree(1)}
    (step,) = {float(number) for array in arrays.values() for number in np.asarray(array)}
    assert {name: array.shape for name, array in arrays.items()} == {
        name: array.shape for name, array in tree(int(step)).items()
    }


def by_convert(path: Path) -> None:
    target = path.parent.parent / "read.msgpack"
    convert(path, target, replace=True)
    check(msgpack.read_file(target))


def by_diff(path: Path) -> None:
    """Of itself: shapes and values of one side agree, where both sides are of one step."""
    found = diff(path, path)
    assert len(found) in (0, 6)
    assert len({(one.what, one.left, one.right, one.max_abs) for one in found}) <= 1


def by_inspect(path: Path) -> None:
    done = CliRunner().invoke(inspect, ["--json", str(path)])
    if done.exit_code:
        raise TreatyError(done.output)
    assert len({tuple(leaf["shape"]) for leaf in json.loads(done.output)["leaves"]}) == 1


def by_verify(path: Path) -> None:
    done = CliRunner().invoke(verify, [str(path)])
    if done.exit_code:
        raise TreatyError(done.output)


READERS: dict[str, Callable[[Path], None]] = {
    "restore": lambda path: check(restore(path, Layers, into="numpy")),
    "restore by map": lambda path: check(restore(path, Layers, keymap=SAME, into="numpy")),
    "convert": by_convert,
    "diff": by_diff,
    "inspect": by_inspect,
}


@pytest.mark.parametrize("name", [*NAMES, *DIRECTORIES])
def test_readers_see_one_checkpoint(name: str, overwritten: Path) -> None:
    readers = {**READERS, "verify": by_verify} if name == "treaty" else READERS
    gave_up = 0
    for _ in range(ROUNDS):
        for how, read in readers.items():
            try:
                read(overwritten / name)
            except (TreatyError, OSError) as error:
                if STAYS not in str(error) and name != "in_place.npz":  # whose writer lets others see half a file
                    raise AssertionError(f"{how} of {name}") from error
                gave_up += 1
    assert gave_up <= ROUNDS or name == "in_place.npz"
