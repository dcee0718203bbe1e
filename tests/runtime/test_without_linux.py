"""What only Linux has is taken away: checkpoints are saved, replaced, restored, converted and removed all the same."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jaxtyping import Float32

from treaty.generator import load
from treaty.runtime import inspect, remove, restore, save, save_async, verify
from treaty.runtime._convert.convert import convert
from treaty.runtime._storage import system
from treaty.runtime.formats.directory import owner
from treaty.runtime.formats.table import FORMATS
from treaty.schema import state

FUNCTIONS = ("getxattr", "listxattr", "posix_fallocate", "removexattr", "setxattr")
CALLS = ("_madvise", "_malloc_trim", "_renameat2", "_sync_file_range")
SIZE = 2**20  # floats: enough for huge pages and for early writing


@state
class Params:
    kernel: Float32[Array, "n"]


load(Params)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in FUNCTIONS:
        monkeypatch.delattr(os, name)
    for name in CALLS:
        monkeypatch.setattr(system, name, None)
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE")
    monkeypatch.setattr(owner, "_BOOT", tmp_path / "no proc")
    owner._machine.cache_clear()
    yield
    owner._machine.cache_clear()


@pytest.mark.parametrize("name", ["x.msgpack", "x.msgpack.gz", "x.safetensors", "x.npz", "x"])
def test_saving_replacing_and_removing(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    save(path, Params(kernel=jnp.zeros(SIZE)))
    save(path, Params(kernel=jnp.ones(SIZE)))

    assert float(restore(path, Params).kernel.sum()) == SIZE
    assert len(inspect(path).leaves) == verify(path).leaves == 1
    remove(path)
    assert list(tmp_path.iterdir()) == []


def test_saving_in_the_background(tmp_path: Path) -> None:
    save_async(tmp_path / "x", Params(kernel=jnp.ones(SIZE))).result()
    assert isinstance(restore(tmp_path / "x", Params, into="numpy").kernel, np.ndarray)


@pytest.mark.parametrize("to", FORMATS)
def test_replacing_by_a_conversion(to: str, tmp_path: Path) -> None:
    save(tmp_path / "x.msgpack", Params(kernel=jnp.ones(8)))
    place = tmp_path / "".join(["there", *FORMATS[to].suffixes[:1]])

    for _ in range(2):
        convert(tmp_path / "x.msgpack", place, to_format=to, replace=True)

    assert float(restore(place, Params).kernel.sum()) == 8
