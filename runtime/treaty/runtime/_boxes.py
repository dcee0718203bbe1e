"""Boxes of arrays: where two of them meet, and whether some are all there is."""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from treaty.runtime._lazy import Part, Start


def overlap(start: Start, size: Start, part: Part) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Where a box and a part meet: as a region of the box, and as one of the part's memory."""
    of_box, of_part = [], []
    for first, length, begin, end in zip(start, size, part.start, part.stop, strict=True):
        low, high = max(first, begin), min(first + length, end)
        if low >= high:
            return None
        of_box.append(slice(low - first, high - first))
        of_part.append(slice(low - begin, high - begin))
    return tuple(of_box), tuple(of_part)


def covers(shape: Sequence[int], parts: Sequence[Part]) -> bool:
    """Whether parts, which may overlap, are together all of an array."""
    ends = [
        sorted({0, size, *(end for part in parts for end in (part.start[axis], part.stop[axis]))})
        for axis, size in enumerate(shape)
    ]
    seen = np.zeros([len(one) - 1 for one in ends], bool)  # a cell for each box that no part's edge goes through
    for part in parts:
        cells = zip(ends, part.start, part.stop, strict=True)
        seen[tuple(slice(bisect_left(one, start), bisect_left(one, stop)) for one, start, stop in cells)] = True
    return bool(seen.all())
