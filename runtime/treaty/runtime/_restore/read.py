"""Reading the arrays of a restore: each part that a device or the host needs is read once, into the memory it stays in."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from treaty.runtime._devices.placement import Room, Target, fill_room, make_room, nbytes_needed, place
from treaty.runtime._lazy import Job, LazyArray, SharedArray
from treaty.runtime._process.collector import collector_paused
from treaty.runtime._process.uninterrupted import uninterrupted
from treaty.runtime._process.workers import Workers
from treaty.runtime._restore.options import Options
from treaty.runtime._state.arrays import cannot_hold, narrowed
from treaty.runtime._state.declared import Declared
from treaty.runtime._trees import Path
from treaty.schema import TreatyError, ir
from treaty.schema.dtypes import BY_NAME

IN_FLIGHT: Final = 2**30  # bytes on their way to a device
_THREADS: Final = 4

Advance = Callable[[int], None]


def read_arrays(
    arrays: Mapping[Path, Any],
    declared: Mapping[Path, Declared],
    placed: Mapping[Path, Any],
    options: Options,
    advance: Advance,
) -> Iterator[tuple[Path, Any]]:
    """The arrays, each with the dtype and in the place that it is to have."""
    with collector_paused():
        targets = {path: _target(leaf, declared.get(path), placed.get(path), options) for path, leaf in arrays.items()}
        _refuse_narrowing(targets)
    shared: dict[int, list[Path]] = {}
    single = []
    for path, leaf in arrays.items():
        if isinstance(leaf, SharedArray):
            shared.setdefault(id(leaf.file), []).append(path)
        else:
            single.append(path)
    for paths in shared.values():
        with collector_paused():
            found = _read_shared([arrays[path] for path in paths], [targets[path] for path in paths], advance)
        yield from zip(paths, found, strict=True)
    for batch in _batches(single, targets, options.max_bytes_in_flight or IN_FLIGHT):
        rooms = _read_batch([arrays[path] for path in batch], [targets[path] for path in batch], advance)
        yield from zip(batch, place(rooms), strict=True)


def _target(leaf: Any, declared: Declared | None, sharding: Any, options: Options) -> Target:
    wanted = leaf.dtype
    if declared is not None and isinstance(declared.type, ir.Array):
        wanted = BY_NAME[declared.type.dtype].numpy
    on_host = options.into is not None or declared is None or declared.on_host
    return Target(tuple(leaf.shape), leaf.dtype, wanted, on_host, sharding)


def _refuse_narrowing(targets: Mapping[Path, Target]) -> None:
    wide = {dtype for dtype in {one.wanted for one in targets.values() if not one.on_host} if narrowed(dtype) != dtype}
    if wide:
        lines = (
            cannot_hold(one.wanted, path) for path, one in targets.items() if not one.on_host and one.wanted in wide
        )
        raise TreatyError("\n".join(lines))


def _read_shared(leaves: Sequence[SharedArray], targets: Sequence[Target], advance: Advance) -> list[Any]:
    found = leaves[0].file.load([leaf.number for leaf in leaves])
    placed = place([fill_room(target, array) for target, array in zip(targets, found, strict=True)])
    advance(sum(array.nbytes for array in found))
    return [np.array(one) if isinstance(one, np.ndarray) else one for one in placed]  # not views of the whole file


@uninterrupted
def _read_batch(leaves: Sequence[Any], targets: Sequence[Target], advance: Advance) -> list[Room]:
    """Host memory with all that a batch needs."""
    rooms: list[Any] = [None] * len(leaves)
    with Workers(_THREADS, "treaty-read") as workers:
        for job in list(
            _jobs(leaves, targets, rooms)
        ):  # all memory first: to map more while others touch theirs takes long
            workers.add(_advancing(job, advance))
    advance(sum(leaf.nbytes for leaf in leaves if not isinstance(leaf, LazyArray)))
    return rooms


def _jobs(leaves: Sequence[Any], targets: Sequence[Target], rooms: list[Any]) -> Iterable[Job]:
    for number, (leaf, target) in enumerate(zip(leaves, targets, strict=True)):
        if not isinstance(leaf, LazyArray):
            rooms[number] = fill_room(target, leaf)  # a view of a mapped file
        elif leaf.jobs is None:
            yield Job(_whole(leaf, target, rooms, number), leaf.nbytes)
        else:
            rooms[number] = make_room(target)
            yield from leaf.jobs(rooms[number].parts)


def _whole(leaf: LazyArray, target: Target, rooms: list[Any], number: int) -> Callable[[], None]:
    def run() -> None:
        rooms[number] = fill_room(target, leaf.read())

    return run


def _advancing(job: Job, advance: Advance) -> Callable[[], None]:
    def run() -> None:
        job.run()
        advance(job.nbytes)

    return run


def _batches(paths: Sequence[Path], targets: Mapping[Path, Target], limit: int) -> Iterator[list[Path]]:
    """Runs of at most `limit` bytes, or of one array."""
    batch: list[Path] = []
    size = 0
    for path in paths:
        needed = nbytes_needed(targets[path])
        if batch and size + needed > limit:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += needed
    if batch:
        yield batch
