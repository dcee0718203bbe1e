"""How far a leaf is from what it was, piece by piece."""

import math
from typing import Any

import numpy as np

from treaty.runtime._lazy import HostArray
from treaty.runtime._report.statistics import number
from treaty.runtime._same import BLOCK, wide


class Change:
    """Between two arrays of one shape. Bits are compared where the dtypes are the same."""

    def __init__(self) -> None:
        self._count = self._same = self._bits = self._same_bits = 0
        self._before = self._apart = self._most = 0.0

    def add(self, before: HostArray, after: HostArray) -> None:
        """Pieces that cover the same elements, flat."""
        with np.errstate(all="ignore"):
            for start in range(0, before.size, BLOCK):
                self._add(before[start : start + BLOCK], after[start : start + BLOCK])

    def _add(self, before: HostArray, after: HostArray) -> None:
        self._count += before.size
        if before.dtype == after.dtype:
            self._add_bits(before, after)
        one, other = wide(before), wide(after)
        both = np.isfinite(one) & np.isfinite(other)
        if not both.all():
            one, other = one[both], other[both]
        far = np.abs(other - one)
        self._before += float(np.square(np.abs(one)).sum())
        self._apart += float(np.square(far).sum())
        self._most = max(self._most, float(far.max(initial=0.0)))

    def _add_bits(self, before: HostArray, after: HostArray) -> None:
        size = before.dtype.itemsize
        differ = np.ascontiguousarray(before).view(np.uint8) ^ np.ascontiguousarray(after).view(np.uint8)
        self._bits += 8 * differ.size
        self._same_bits += 8 * differ.size - int(np.bitwise_count(differ).sum(dtype=np.int64))
        self._same += int(np.count_nonzero(~differ.reshape(-1, size).any(axis=1)))

    def as_data(self) -> dict[str, Any]:
        """`relative` is norm(after - before) / norm(before), over elements that are finite in both."""
        norm, apart = math.sqrt(self._before), math.sqrt(self._apart)
        found = {
            "relative": number(apart / norm if norm else math.inf if apart else 0.0),
            "max_abs": number(self._most),
            "norm": number(apart),
        }
        if self._bits:
            found |= {"same_bits": self._same_bits / self._bits, "same_elements": self._same / self._count}
        return found

    @property
    def is_none(self) -> bool:
        """Whether all is the same to the last bit."""
        return self._same_bits == self._bits and self._same == self._count
