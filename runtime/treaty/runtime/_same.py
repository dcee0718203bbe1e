"""Whether leaves are the same, to the last bit, without holding more than a few pieces of them."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from treaty.runtime._lazy import HostArray, pieces_of
from treaty.runtime._trees import is_stored_array

BLOCK: Final = 2**18  # elements compared at a time: what is made of them stays in the cache


def same_bytes(one: Any, other: Any) -> bool:
    """Arrays: shape, dtype and every bit. Other values: type and equality, NaN equal to NaN, and 0.0 not to -0.0."""
    if not is_stored_array(one) or not is_stored_array(other):
        return same_value(one, other)
    if one.dtype != other.dtype or tuple(one.shape) != tuple(other.shape):
        return False
    return all(same_bits(left, right) for left, right in in_step(one, other))


def same_value(one: Any, other: Any) -> bool:
    """As `same_bytes`, of values that are no arrays."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (float, complex, np.generic)) and not isinstance(one, (str, bytes)):
        return same_bits(np.asarray(one), np.asarray(other)) or bool(one != one and other != other)
    return bool(one == other)


def same_bits(one: HostArray, other: HostArray) -> bool:
    left, right = (np.ascontiguousarray(array).view(np.uint8) for array in (one, other))
    starts = range(0, left.size, BLOCK)
    return left.size == right.size and all(
        np.array_equal(left[start : start + BLOCK], right[start : start + BLOCK]) for start in starts
    )


def has_numbers(dtype: "np.dtype[Any]") -> bool:
    """Whether elements can be counted and subtracted: not text, dates, or bytes without a meaning."""
    return dtype.kind in "biufc" or (dtype.kind == "V" and dtype.type is not np.void)


def wide(array: HostArray) -> HostArray:
    """Numbers of any dtype as float64 or complex128, which hold all of 32 bits and below exactly."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64, copy=False)


def in_step(one: Any, other: Any) -> Iterator[tuple[HostArray, HostArray]]:
    """Pieces of two arrays of equal size, cut so that they cover the same elements."""
    left: HostArray = np.empty(0)
    right = left
    others = pieces_of(other)
    for left in pieces_of(one):
        while left.size:
            while not right.size:
                right = next(others)
            count = min(left.size, right.size)
            yield left[:count], right[:count]
            left, right = left[count:], right[count:]
    next(others, None)  # so that it lets go of what it gave last
