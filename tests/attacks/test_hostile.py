"""Every hostile file gives its one error, and costs next to nothing."""

import gzip
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Int8

from tests.attacks import hostile
from treaty.generator import load
from treaty.runtime import CorruptCheckpointError, from_bytes, restore
from treaty.runtime.formats.msgpack import read_file
from treaty.runtime.formats.msgpack.decode import decode
from treaty.runtime.formats.msgpack.runs import Runs
from treaty.schema import state

FILES = {one.name: one for one in hostile.hostile()}
COMPRESSED = {one.name: one for one in hostile.compressed()}
LARGE = hostile.large()


@state
class Weights:
    w: Int8[np.ndarray, "n"]


load(Weights)


def peak_of_refusing(data: Any) -> tuple[str, int]:
    """The message, and the most memory that was held on the way to it."""
    warnings.simplefilter("error")
    tracemalloc.start()
    try:
        with pytest.raises(CorruptCheckpointError) as told:
            decode(data)
        return str(told.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_files_are_those_of_the_builder() -> None:
    names = {path.stem for path in hostile.FILES.iterdir()}
    assert names == FILES.keys() | COMPRESSED.keys(), "run python -m tests.attacks.hostile"
    for name, one in FILES.items():
        assert (hostile.FILES / f"{name}.msgpack").read_bytes() == one.data


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_told_by_its_place(name: str) -> None:
    data = FILES[name].data
    message, peak = peak_of_refusing(data)
    assert message == FILES[name].message
    assert peak < 300_000 + 20 * len(data)  # Python's frames for 256 levels are most of it


@pytest.mark.parametrize("name", FILES)
def test_every_reader_says_the_same(name: str) -> None:
    path = hostile.FILES / f"{name}.msgpack"
    runs: Runs = {}
    for refuse in (
        lambda: decode(path.read_bytes(), runs),
        lambda: decode(bytearray(path.read_bytes())),
        lambda: read_file(path),
        lambda: restore(path, Weights),
        lambda: restore(path, Weights, into="numpy"),
        lambda: from_bytes(Weights, path.read_bytes(), into="numpy"),
    ):
        with pytest.raises(CorruptCheckpointError) as told:
            refuse()
        assert str(told.value) == FILES[name].message


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_hostile_compressed_file_is_told(name: str) -> None:
    with pytest.raises(CorruptCheckpointError) as told:
        restore(hostile.FILES / f"{name}.msgpack", Weights)
    assert str(told.value).startswith(COMPRESSED[name].message)


@pytest.mark.parametrize("name", LARGE)
def test_large_ones_cost_no_more_than_a_few_times_their_size(name: str) -> None:
    message, peak = peak_of_refusing(LARGE[name])
    assert len(message) < 4000
    assert peak < 300_000 + 4 * len(LARGE[name])


def test_nesting_is_refused_also_where_the_stack_is_nearly_full() -> None:
    def deeper(levels: int) -> Any:
        return deeper(levels - 1) if levels else decode(b"\x81\xa0" * 200 + b"\xc0")

    with pytest.raises(CorruptCheckpointError, match=r"^expected a tree that Python's stack has room for"):
        deeper(500)


def test_compressed_files_cost_no_more_than_what_they_hold(tmp_path: Path) -> None:
    """A bomb is told from a checkpoint of zeros only by reading it: the cost is one copy of its contents."""
    path = tmp_path / "bomb.msgpack.gz"
    path.write_bytes(gzip.compress(bytes(2**25), 1))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptCheckpointError, match=r"^expected the end, got 33554431 more bytes at byte 1, \$$"):
            restore(path, Weights)
        assert tracemalloc.get_traced_memory()[1] < 2**25 * 1.5 + 2**23
    finally:
        tracemalloc.stop()
