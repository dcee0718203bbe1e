"""Arrays that are made of others without a change to an element: whoever wants a box of one asks those for theirs."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import attrs
import numpy as np

from treaty.runtime._lazy import (
    PIECE_BYTES,
    HostArray,
    Job,
    LazyArray,
    Part,
    bands,
    chunk_of,
    copy_boxes,
    covers,
    jobs_of,
)
from treaty.runtime._storage.memory import aligned

# Takes a part of the derived array to the parts of its sources, by their numbers, that it is made of. They share its memory.
Split: TypeAlias = Callable[[Part], Iterator[tuple[int, Part]]]


def derived(
    sources: Sequence[Any],
    shape: tuple[int, ...],
    split: Split,
    parts: Callable[[], Iterator[HostArray]] | None = None,
) -> LazyArray:
    """An array of elements of others, which have one dtype, and are in memory or lazy."""
    roots: list[Any] = []
    below: list[tuple[int, Split | None]] = []  # of each source: the first of its roots, and how it is made of them
    for source in sources:
        below.append((len(roots), source.split if isinstance(source, _Derived) else None))
        roots += source.roots if isinstance(source, _Derived) else [source]

    def to_roots(part: Part) -> Iterator[tuple[int, Part]]:
        for number, of_source in split(part):
            first, further = below[number]
            for root, of_root in [(0, of_source)] if further is None else further(of_source):
                yield first + root, of_root

    jobs = partial(_jobs, roots, shape, to_roots)

    def read() -> HostArray:
        memory = aligned(shape, sources[0].dtype)
        for job in jobs([Part((0,) * len(shape), memory)]):
            job.run()
        return memory

    if parts is None and not any(isinstance(root, LazyArray) for root in roots):
        parts = partial(_piece_by_piece, shape, sources[0].dtype, jobs)
    checked_whole = any(map(_is_checked_whole, roots))
    return _Derived(shape, sources[0].dtype, read, parts, jobs, checked_whole, roots=roots, split=to_roots)


@attrs.frozen(eq=False)
class _Derived(LazyArray):
    """An array that knows the stored ones that it is of, however many steps lie between."""

    roots: list[Any] = attrs.field(kw_only=True)
    split: Split = attrs.field(kw_only=True)


def _jobs(roots: Sequence[Any], shape: tuple[int, ...], split: Split, wanted: Sequence[Part]) -> Iterator[Job]:
    needed: dict[int, tuple[Any, list[Part]]] = {}
    for part in wanted:
        for number, of_root in split(part):
            needed.setdefault(id(roots[number]), (roots[number], []))[1].append(of_root)
    # Who wants all of a derived array gets the checksums of what it is of, though it may be only a part of that.
    is_whole = any(map(_is_checked_whole, roots)) and covers(shape, wanted)
    for root, parts in needed.values():
        if is_whole and _is_checked_whole(root) and not covers(root.shape, parts):
            yield Job(partial(copy_boxes, root, parts), root.nbytes)
        else:
            yield from jobs_of(root, parts)


def _piece_by_piece(
    shape: tuple[int, ...], dtype: "np.dtype[Any]", jobs: Callable[[Sequence[Part]], Iterator[Job]]
) -> Iterator[HostArray]:
    """Of arrays in memory. Those that are stored may have to be read whole for each piece."""
    for start, box in bands(shape, chunk_of(shape, dtype.itemsize, PIECE_BYTES)):
        memory = aligned(box, dtype)
        for job in jobs([Part(start, memory)]):
            job.run()
        yield memory.reshape(-1)


def _is_checked_whole(value: Any) -> bool:
    return isinstance(value, LazyArray) and value.checked_whole
