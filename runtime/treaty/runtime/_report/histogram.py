"""A histogram of numbers that come piece by piece, whose range nobody knows before the last."""

import math
from typing import Any, Final

import numpy as np

from treaty.runtime._lazy import HostArray

_FINE: Final = 512  # bins that are counted in
_SHOWN: Final = 48  # bins that are drawn, of as many fine ones each


class Histogram:
    """Where a number is out of range, neighbours become one bin and the range is twice as wide: counts stay exact."""

    def __init__(self) -> None:
        self._counts: HostArray = np.zeros(_FINE, np.int64)
        self._low = self._width = 0.0
        self._is_empty, self._is_lost = True, False

    def add(self, numbers: HostArray) -> None:
        """Finite numbers, one at least."""
        low, high = float(numbers.min()), float(numbers.max())
        if self._is_empty:
            self._begin(low, high)
        while not self._is_lost and not self._reaches(low, high):
            self._widen(to_the_left=low < self._low)
        if self._is_lost:
            return
        places = ((numbers - self._low) / self._width).astype(np.int64)
        self._counts += np.bincount(np.clip(places, 0, _FINE - 1), minlength=_FINE)

    def as_data(self) -> dict[str, Any] | None:
        """None where there is nothing to draw: no numbers, one number, or a range that float64 has no room for."""
        occupied = np.flatnonzero(self._counts)
        if self._is_lost or len(occupied) < 2:
            return None
        first, last = int(occupied[0]), int(occupied[-1])
        together = -(-(last - first + 1) // _SHOWN)
        starts = range(first, last + 1, together)
        counts = [int(self._counts[start : min(start + together, last + 1)].sum()) for start in starts]
        return {"low": self._low + first * self._width, "width": self._width * together, "counts": counts}

    def _begin(self, low: float, high: float) -> None:
        self._is_empty = False
        # Of one number nobody knows how far the others are: it is doubled up to there.
        self._low, self._width = low, (high - low) / _FINE or abs(low) * 2.0**-50 or 2.0**-1000
        self._is_lost = not math.isfinite(self._width)

    def _reaches(self, low: float, high: float) -> bool:
        return self._low <= low and high <= self._low + _FINE * self._width

    def _widen(self, to_the_left: bool) -> None:
        pairs = self._counts.reshape(-1, 2).sum(axis=1)
        none = np.zeros_like(pairs)
        self._counts = np.concatenate([none, pairs] if to_the_left else [pairs, none])
        self._low -= _FINE * self._width if to_the_left else 0.0
        self._width *= 2
        self._is_lost = not math.isfinite(self._low + _FINE * self._width)
