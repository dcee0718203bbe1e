"""From host memory to where arrays belong: the default device, the devices of a sharding, or nowhere else."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from attrs import frozen
from jax.sharding import Sharding

from treaty.runtime._lazy import Part, Start
from treaty.runtime._process.forks import check_devices
from treaty.runtime._state.arrays import refuse_narrowing, transfer
from treaty.runtime._storage.memory import HostArray, aligned


@frozen
class Target:
    """What becomes of one array: numpy where `on_host`; else on the default device, unless a sharding says more."""

    shape: tuple[int, ...]
    stored: "np.dtype[Any]"
    wanted: "np.dtype[Any]"
    on_host: bool = True
    sharding: Sharding | None = None

    def regions(self) -> dict[tuple[Start, Start], list[Any]]:
        """(start, stop) of what this process needs, each with the devices that need it."""
        if self.sharding is None:
            return {((0,) * len(self.shape), self.shape): []}
        found: dict[tuple[Start, Start], list[Any]] = {}
        for device, index in self.sharding.addressable_devices_indices_map(self.shape).items():
            ends = [one.indices(size)[:2] for one, size in zip(index or (), self.shape, strict=True)]
            key = (tuple(first for first, _ in ends), tuple(last for _, last in ends))
            found.setdefault(key, []).append(device)
        return found


@frozen
class Room:
    """Host memory for one array, to be filled by the reader."""

    target: Target
    parts: tuple[Part, ...]
    devices: tuple[tuple[Any, ...], ...]  # of each part


def nbytes_needed(target: Target) -> int:
    """How much host memory `make_room` takes."""
    sizes = [np.prod([b - a for a, b in zip(*region, strict=True)], dtype=np.int64) for region in target.regions()]
    return int(sum(sizes)) * target.stored.itemsize


def make_room(target: Target) -> Room:
    regions = target.regions()
    parts = [
        Part(start, aligned([b - a for a, b in zip(start, stop, strict=True)], target.stored))
        for start, stop in regions
    ]
    return Room(target, tuple(parts), tuple(map(tuple, regions.values())))


def fill_room(target: Target, whole: HostArray) -> Room:
    """Room for an array that is already in memory, as a whole."""
    if target.sharding is None:
        return Room(target, (Part((0,) * whole.ndim, whole),), ((),))
    parts = [
        Part(start, whole[tuple(slice(a, b) for a, b in zip(start, stop, strict=True))])
        for start, stop in target.regions()
    ]
    return Room(target, tuple(parts), tuple(map(tuple, target.regions().values())))


def place(rooms: Sequence[Room]) -> list[Any]:
    """The arrays, in order: one transfer for all that go to a device."""
    memory = [[_cast(part.memory, room.target) for part in room.parts] for room in rooms]
    default = [i for i, room in enumerate(rooms) if not room.target.on_host and room.target.sharding is None]
    sharded = [i for i, room in enumerate(rooms) if not room.target.on_host and room.target.sharding is not None]
    placed: list[Any] = [parts[0] if room.target.on_host else None for room, parts in zip(rooms, memory, strict=True)]
    for index, array in zip(default, transfer([memory[i][0] for i in default]) if default else [], strict=True):
        placed[index] = array
    shards = _to_devices([rooms[i] for i in sharded], [memory[i] for i in sharded])
    for index, arrays in zip(sharded, shards, strict=True):
        target = rooms[index].target
        assert target.sharding is not None
        placed[index] = jax.make_array_from_single_device_arrays(
            target.shape, target.sharding, arrays, dtype=target.wanted
        )
    return placed


def _to_devices(rooms: Sequence[Room], memory: Sequence[Sequence[HostArray]]) -> list[list[jax.Array]]:
    sources: list[Any] = []
    devices: list[Any] = []
    counts = []
    if rooms:
        check_devices()
    for room, parts in zip(rooms, memory, strict=True):
        refuse_narrowing(room.target.wanted)
        before = len(sources)
        for part, places in zip(parts, room.devices, strict=True):
            sources += [part] * len(places)
            devices += places
        counts.append(len(sources) - before)
    arrays = iter(jax.device_put(sources, devices) if sources else [])
    return [[next(arrays) for _ in range(count)] for count in counts]


def _cast(memory: HostArray, target: Target) -> HostArray:
    """An array of JAX, as a migration may give, would not become wider than JAX holds: numpy's does."""
    return memory if target.stored == target.wanted else np.asarray(memory).astype(target.wanted)
