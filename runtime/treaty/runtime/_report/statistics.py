"""What the numbers of an array are like, piece by piece: nothing but sums is held, and those in float64."""

import math
from typing import Any, Final

import numpy as np

from treaty.runtime._lazy import HostArray
from treaty.runtime._report.histogram import Histogram
from treaty.runtime._same import BLOCK, wide

_EXACT: Final = 2**53  # from here on float64, which is all that a browser has, leaves integers out


class Statistics:
    """Of complex numbers all but the counts are of their magnitudes. Only finite numbers have a mean, a norm and a place."""

    def __init__(self) -> None:
        self.count = self.finite = self.nans = self.infinities = self.zeros = 0
        self.lowest: float | int | None = None
        self.highest: float | int | None = None
        self._mean = self._deviations = self._squares = 0.0
        self._histogram = Histogram()

    def add(self, piece: HostArray) -> None:
        """More elements, in any shape."""
        flat = piece.reshape(-1)
        with np.errstate(all="ignore"):
            for start in range(0, flat.size, BLOCK):
                self._add(flat[start : start + BLOCK])

    def _add(self, block: HostArray) -> None:
        numbers = wide(block)
        are_finite = np.isfinite(numbers)
        self.count += block.size
        if not are_finite.all():
            self.nans += int(np.isnan(numbers).sum())
            self.infinities += int(np.isinf(numbers).sum())
            numbers = numbers[are_finite]
        numbers = np.abs(numbers) if numbers.dtype.kind == "c" else numbers
        self.zeros += int(numbers.size - np.count_nonzero(numbers))
        if not numbers.size:
            return
        ends = block if block.dtype.kind in "iu" else numbers  # 64 bits have more digits than float64
        low, high = ends.min().item(), ends.max().item()
        self.lowest = low if self.lowest is None else min(self.lowest, low)
        self.highest = high if self.highest is None else max(self.highest, high)
        self._squares += float(numbers @ numbers)
        self._merge(numbers)
        self._histogram.add(numbers)

    def _merge(self, numbers: HostArray) -> None:
        """Mean and deviations of both parts together, without a second look at the first (Chan, Golub and LeVeque)."""
        mean = float(numbers.mean())
        deviations = float(np.square(numbers - mean).sum())
        before, self.finite = self.finite, self.finite + numbers.size
        apart, share = mean - self._mean, numbers.size / self.finite
        self._mean += apart * share
        self._deviations += deviations + apart * apart * before * share

    def as_data(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "count": self.count,
            "nans": self.nans,
            "infinities": self.infinities,
            "zeros": self.zeros,
        }
        if self.finite:
            found |= {
                "min": number(self.lowest),
                "max": number(self.highest),
                "mean": number(self._mean),
                "std": number(math.sqrt(self._deviations / self.finite) if self._deviations >= 0 else math.nan),
                "norm": number(math.sqrt(self._squares)),
            }
        histogram = self._histogram.as_data()
        return found if histogram is None else {**found, "histogram": histogram}


def number(value: Any) -> Any:
    """As JSON has it; as text what JSON has no word for, and what a browser would round."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, int) and abs(value) > _EXACT else value
