"""Which process writes which chunks of the arrays that several processes hold: each has its share of the bytes.

All processes work it out alike, from paths, shapes and shardings; where those differ, chunks are missing or written twice,
and the save fails.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, TypeAlias

import jax
from jax.sharding import Sharding

from treaty.runtime.formats.directory.layout import Start
from treaty.runtime.formats.directory.manifest import Leaf

Share: TypeAlias = Mapping[Start, frozenset[Start]]  # the first element of a region -> those of the chunks in it


def shares(arrays: Sequence[tuple[int, Leaf, jax.Array]]) -> dict[int, Share]:
    """For each array of which processes hold the same parts, by its number: what this process writes of it.

    A chunk goes to the one of its holders that has least to write so far.
    """
    load = [0] * jax.process_count()
    found: dict[int, Share] = {}
    for number, leaf, array in sorted(arrays, key=lambda one: one[1].path):
        held = _holders(array.sharding, leaf.shape)
        if any(len(holders) > 1 for _, holders in held):
            found[number] = _dealt(leaf, held, tuple(array.sharding.shard_shape(leaf.shape)), load)
    return found


def _dealt(leaf: Leaf, held: "_Held", shard: Start, load: list[int]) -> Share:
    own: dict[Start, frozenset[Start]] = {}
    for region, holders in held:
        mine = []
        for chunk in _chunks_in(region, shard, leaf.chunks):
            writer = min(holders, key=lambda process: (load[process], process))
            load[writer] += leaf.chunk_bytes
            if writer == jax.process_index():
                mine.append(chunk)
        if mine:
            own[region] = frozenset(mine)
    return own


def _chunks_in(region: Start, shard: Start, chunks: Start) -> Iterator[Start]:
    axes = zip(region, shard, chunks, strict=True)
    return product(*(range(first, first + size, chunk) for first, size, chunk in axes))


_Held: TypeAlias = tuple[tuple[Start, tuple[int, ...]], ...]


@lru_cache(2**10)
def _holders(sharding: Sharding, shape: tuple[int, ...]) -> _Held:
    """The first element of each part of an array, and the processes that have it."""
    found: dict[Start, set[int]] = {}
    indices: Mapping[Any, Any] = sharding.devices_indices_map(shape)
    for device, index in indices.items():
        found.setdefault(first_of(index, shape), set()).add(device.process_index)
    return tuple((start, tuple(sorted(found[start]))) for start in sorted(found))


def first_of(index: Sequence[slice], shape: Sequence[int]) -> Start:
    return tuple(one.indices(size)[0] for one, size in zip(index, shape, strict=True))
