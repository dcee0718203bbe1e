"""How arrays are cut into chunks: so that a mesh that cuts them otherwise reads little that it does not need."""

import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import Array
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Float32

from treaty.generator import load
from treaty.runtime import restore, save, verify
from treaty.runtime._lazy import Part
from treaty.runtime._restore.source import Source
from treaty.runtime.formats.directory import plan as _plan
from treaty.runtime.formats.directory import read as _read
from treaty.runtime.formats.directory.layout import tile_shape
from treaty.runtime.formats.table import reading
from treaty.schema import state

_untyped: Any = jax


@state
class Kernels:
    square: Float32[Array, "d_in d_out"]
    stack: Float32[Array, "4 d_in d_out"]


load(Kernels)


@given(
    st.lists(st.tuples(st.integers(1, 96), st.integers(1, 8)), min_size=1, max_size=4),
    st.integers(1, 2**12),
    st.sets(st.integers(0, 3)),
)
def test_tiles_divide_shards_and_are_cut_along_named_axes_only(
    sizes: list[tuple[int, int]], limit: int, named: set[int]
) -> None:
    shard = [size for size, _ in sizes]
    axes = sorted(axis for axis in named if axis < len(shard))
    tile = tile_shape(shard, [size * count for size, count in sizes], 4, limit, axes)
    assert all(whole % part == 0 for whole, part in zip(shard, tile, strict=True))
    assert all(tile[axis] == shard[axis] for axis in range(len(shard)) if axis not in axes)
    if math.prod(shard) * 4 <= limit:
        assert tile == tuple(shard)


@pytest.mark.parametrize(
    ("shard", "axes", "tile"),
    [
        ((32, 256), (0, 1), (32, 32)),  # rows: as many cuts along the columns
        ((64, 128), (0, 1), (32, 32)),  # 4x2
        ((256, 256), (1,), (256, 4)),  # the first axis has no name
        ((32, 251), (0, 1), (4, 251)),  # a prime is not cut
        ((32, 256), (), (32, 256)),
    ],
)
def test_an_array_is_cut_as_often_along_each_axis(
    shard: tuple[int, ...], axes: tuple[int, ...], tile: tuple[int, ...]
) -> None:
    assert tile_shape(shard, (256, shard[1] if shard[1] == 251 else 256), 4, 4096, axes) == tile


def over(shape: tuple[int, ...], *axes: str | None) -> NamedSharding:
    mesh = Mesh(np.array(jax.devices()).reshape(shape), ("x", "y")[: len(shape)])
    return NamedSharding(mesh, _untyped.sharding.PartitionSpec(*axes))


def test_columns_of_what_was_saved_in_rows_read_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column on its own, as processes read them that hold one each."""
    monkeypatch.setattr(_plan, "SMALL_BYTES", 64)
    monkeypatch.setattr(_plan, "TILE_BYTES", 1024)
    square = np.arange(128 * 128, dtype=np.float32).reshape(128, 128)
    stack = np.stack([square + i for i in range(4)])
    save(
        tmp_path / "a",
        Kernels(square=jax.device_put(square, over((8,), "x")), stack=jax.device_put(stack, over((8,), None, "x"))),
    )
    verify(tmp_path / "a")
    read: list[int] = []
    fill = _read.CheckpointReader._fill

    def counting(self: Any, name: str, memory: Any, digest: str, at: str) -> None:
        read.append(memory.nbytes)
        fill(self, name, memory, digest, at)

    def read_columns(source: Source) -> None:
        tree = source.tree()
        for first in range(0, 128, 16):
            for name, whole in (("square", square), ("stack", stack)):
                memory = np.empty((*whole.shape[:-1], 16), np.float32)
                tree[name].fill(Part((0,) * (whole.ndim - 1) + (first,), memory))
                assert np.array_equal(memory, whole[..., first : first + 16])

    monkeypatch.setattr(_read.CheckpointReader, "_fill", counting)
    reading(tmp_path / "a", read_columns)
    assert sum(read) == square.nbytes + stack.nbytes
    columns: Any = Kernels(square=over((8,), None, "x"), stack=over((8,), None, None, "x"))  # type: ignore[arg-type]
    found = restore(tmp_path / "a", Kernels, shardings=columns)
    assert np.array_equal(found.square, square)
    assert np.array_equal(found.stack, stack)
