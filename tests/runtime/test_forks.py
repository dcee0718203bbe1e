"""Forked processes: what they can do they do, what they cannot they refuse at once, and no lock stays with them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.forks_script import HANG
from tests.soak.states import Training, at_step, step_of
from treaty.runtime import restore, save

TENSORSTORE = "expected TensorStore's threads, got a process forked after they were started"
DEVICES = "expected JAX's threads, got a process forked after JAX was used"
COMPUTED = "expected arrays in the host's memory, got one that was being computed"
ADVICE = 'start such processes with multiprocessing.get_context("spawn"), or fork them earlier'


@pytest.mark.parametrize("how", ["os.fork", "multiprocessing"])
def test_a_forked_process_saves_and_restores_or_says_at_once_why_not(tmp_path: Path, how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.forks_script", str(tmp_path), how],
        capture_output=True,
        text=True,
        timeout=10 * HANG,
    )
    assert done.returncode == 0, done.stderr
    found = {line["stage"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert list(found) == ["fresh", "after jax", "after a save", "during a save", "during a computation"], done.stderr
    kinds = ("msgpack", "safetensors", "directory", "background", "restored", "restored to numpy")
    for stage in found:
        for kind in (*kinds, "restored from a directory"):
            expected = "ok"
            is_late = stage == "during a computation"
            if kind in ("msgpack", "safetensors", "directory", "background") and is_late:
                expected = COMPUTED
            elif kind in ("directory", "background") and stage not in ("fresh", "after jax"):
                expected = TENSORSTORE
            elif kind in ("restored", "restored to numpy") and is_late:
                expected = "not there"
            elif kind == "restored" and stage != "fresh":
                expected = DEVICES
            assert found[stage][kind].startswith(expected), (stage, kind, found[stage][kind])
            assert found[stage][kind].endswith(("ok", "not there", ADVICE))
    assert step_of(restore(tmp_path / "of the parent", Training)) == 7


ORPHAN = """
import os, signal, sys, threading, warnings
warnings.simplefilter("ignore")
from tests.runtime.forks_script import _hold_saves
from tests.soak.states import at_step
from treaty.runtime import save_async
gate = _hold_saves()
save_async(sys.argv[1], at_step(1))
assert gate.begun.wait(60)
child = os.fork()
if child == 0:
    print(os.getpid(), flush=True)
    signal.pause()  # a worker that outlives its parent
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_that_outlives_a_killed_parent_keeps_no_lock(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(tmp_path / "a")], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        try:
            assert parent.wait(60) == -signal.SIGKILL
            save(tmp_path / "a", at_step(2))
        finally:
            os.kill(orphan, signal.SIGKILL)
    assert step_of(restore(tmp_path / "a", Training)) == 2


FORK_OF_ONE_THAT_SAVED = """
import os, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from treaty.runtime import restore, save
from treaty.runtime.formats import orbax
from treaty.schema import TreatyError
from tests.faults.states import Run, run
path = sys.argv[1]
if sys.argv[2] == "compressed":
    save(path, run(1, d_in=64 * 1024), compress="zstd")
    read = lambda: restore(path, Run, into="numpy")
else:
    orbax.write(path, {"x": np.zeros((512, 512))})
    read = orbax.read_tree(path)["x"].read
read()
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    read()
except TreatyError as error:
    print(error, flush=True)
    os._exit(0)
os._exit(3)
"""


@pytest.mark.parametrize("what", ["compressed", "opened before"])
def test_in_a_forked_process_what_tensorstore_would_have_to_read_is_refused(tmp_path: Path, what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK_OF_ONE_THAT_SAVED, str(tmp_path / "a"), what],
        capture_output=True,
        text=True,
        timeout=10 * HANG,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(TENSORSTORE)
    assert ADVICE in done.stdout


FORK_DURING_A_SAVE = """
import math, os, sys, warnings
warnings.simplefilter("ignore")
from tests.runtime.forks_script import _hold_saves
from tests.soak.states import at_step
from treaty.runtime import save_async
from treaty.schema import TreatyError
gate = _hold_saves()
handle = save_async(sys.argv[1], at_step(1))
assert gate.begun.wait(60)
child = os.fork()
if child == 0:
    try:
        handle.result(30)
    except TreatyError as error:
        print(handle.done(), error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
gate.opened.set()
handle.result(math.inf)
"""


def test_a_save_under_way_is_the_parents_and_its_handle_in_the_child_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORK_DURING_A_SAVE, str(tmp_path / "a")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * HANG)
    assert done.returncode == 0, done.stderr
    where = tmp_path / "a"
    assert done.stdout == (
        f"True this process was forked while the save to {where} was under way; the parent does it\n"
    )
    assert step_of(restore(where, Training)) == 1
