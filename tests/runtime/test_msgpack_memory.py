"""What saving and restoring cost in memory: next to nothing beyond the state itself."""

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float32

from treaty.generator import load
from treaty.runtime import from_bytes, restore, save, to_bytes
from treaty.schema import state

ROOT = Path(__file__).parents[2]
MIB = 2**20


@state
class Model:
    layers: list[Float32[np.ndarray, "n"]]
    head: Float32[np.ndarray, "k"]


load(Model)


def model(mib: int, layers: int = 8) -> Model:
    size = mib * MIB // 4 // 2
    return Model(layers=[np.full(size // layers, i, np.float32) for i in range(layers)], head=np.ones(size, np.float32))


def peak(work: Callable[[], Any]) -> int:
    """The most bytes that Python and numpy held at once for this work, its result included."""
    tracemalloc.start()
    try:
        kept = work()
        del kept
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("layers", [8, 2000])
def test_save_holds_no_copy(tmp_path: Path, layers: int) -> None:
    value = model(64, layers)
    save(tmp_path / "warm.msgpack", value)
    headers = 600 * layers
    assert peak(lambda: save(tmp_path / "x.msgpack", value)) < 64 * MIB // 100 + headers


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_files_stream(tmp_path: Path, suffix: str) -> None:
    value = model(32)
    assert peak(lambda: save(tmp_path / f"x.msgpack{suffix}", value)) < 6 * MIB
    assert peak(lambda: restore(tmp_path / f"x.msgpack{suffix}", Model, into="numpy")) < 1.5 * 32 * MIB + 8 * MIB


def test_to_bytes_makes_the_bytes_and_nothing_else() -> None:
    value = model(32)
    assert peak(lambda: to_bytes(value)) < 1.02 * 32 * MIB


@pytest.mark.parametrize("layers", [8, 2000])
def test_from_bytes_makes_views_only(layers: int) -> None:
    data = to_bytes(model(64, layers))
    from_bytes(Model, data, into="numpy")
    assert peak(lambda: from_bytes(Model, data, into="numpy")) < 100_000 + 700 * layers


def test_restore_reads_only_what_is_looked_at(tmp_path: Path) -> None:
    save(tmp_path / "x.msgpack", model(64))
    assert peak(lambda: restore(tmp_path / "x.msgpack", Model, into="numpy").head[0]) < 200_000


MEASURE = """
import resource, sys
from tests.runtime.test_msgpack_memory import model, save, restore, Model
def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
save(sys.argv[1], model(1))
restore(sys.argv[1], Model, into="numpy")
value = model(256)
before = most()
save(sys.argv[1], value)
print(most() - before)
"""


def test_the_process_itself_grows_by_no_copy(tmp_path: Path) -> None:
    """What tracemalloc cannot see: 256 MiB saved, and not 16 of them added to the process."""
    roots = os.pathsep.join(str(ROOT / one) for one in ("", "schema", "generator", "generated", "runtime"))
    environment = {**os.environ, "PYTHONPATH": roots}
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "x.msgpack")]
    grown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert int(grown) < 16
