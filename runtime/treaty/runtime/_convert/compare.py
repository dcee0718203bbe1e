"""Comparing trees leaf by leaf, in little memory: are they the same, and if not, how far apart."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from attrs import frozen

from treaty.runtime._lazy import HostArray
from treaty.runtime._same import BLOCK, has_numbers, in_step, same_bits, same_value, wide
from treaty.runtime._trees import flatten, is_stored_array, shown

_Distance: TypeAlias = tuple[int, float, float]  # how many elements differ, and how far they are apart at most
_SAME: Final = (0, 0.0, 0.0)


@frozen
class Difference:
    """Two leaves that differ. `left` and `right` describe them, None where there is none.

    Of arrays of the same shape: how many elements differ, and the largest absolute and relative differences, where
    relative is to the larger of the two. A NaN equals a NaN and is infinitely far from all else.
    """

    path: tuple[str, ...]
    what: str  # "missing", "kind", "shape", "dtype" or "values"
    left: str | None
    right: str | None
    count: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0


def compare(
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    rtol: float = 0.0,
    atol: float = 0.0,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Difference]:
    """All leaves that differ by more than `atol + rtol * abs(right)`, both finite, or in shape, dtype or kind.

    `advance` is told how many bytes of the left one are looked at, leaf by leaf.
    """
    left, right = leaves(one), leaves(other)
    found = []
    for path in [*left, *(path for path in right if path not in left)]:
        advance(left[path].nbytes if path in left and is_stored_array(left[path]) else 0)
        if path not in left or path not in right:
            here, there = (describe(side[path]) if path in side else None for side in (left, right))
            found.append(Difference(path, "missing", here, there))
            continue
        difference = _leaves(path, left[path], right[path], rtol, atol)
        if difference is not None:
            found.append(difference)
    return found


def leaves(tree: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """The leaves by path. A numpy scalar is an array without axes: not every format tells them apart."""
    return {path: np.asarray(leaf) if isinstance(leaf, np.generic) else leaf for path, leaf in flatten(tree)}


def describe(leaf: Any) -> str:
    if is_stored_array(leaf):
        return shown(leaf)
    text = repr(leaf)
    return f"{type(leaf).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _leaves(path: tuple[str, ...], one: Any, other: Any, rtol: float, atol: float) -> Difference | None:
    ends = describe(one), describe(other)
    if is_stored_array(one) != is_stored_array(other):
        return Difference(path, "kind", *ends)
    if not is_stored_array(one):
        if type(one) is not type(other):
            return Difference(path, "kind", *ends)
        count, max_abs, max_rel = _value_distance(one, other, rtol, atol)
        return Difference(path, "values", *ends, count, max_abs, max_rel) if count else None
    if tuple(one.shape) != tuple(other.shape):
        return Difference(path, "shape", *ends)
    count, max_abs, max_rel = _distance(one, other, rtol, atol)
    if one.dtype != other.dtype:
        return Difference(path, "dtype", *ends, count, max_abs, max_rel)
    return Difference(path, "values", *ends, count, max_abs, max_rel) if count else None


def _value_distance(one: Any, other: Any, rtol: float, atol: float) -> _Distance:
    """Of two Python values of one type."""
    if isinstance(one, int):
        return _int_distance(one, other, rtol, atol)
    if isinstance(one, (float, complex)):
        return _distance(np.asarray([one]), np.asarray([other]), rtol, atol)
    return _SAME if same_value(one, other) else (1, math.inf, math.inf)


def _int_distance(one: int, other: int, rtol: float, atol: float) -> _Distance:
    """Exact: Python's integers have more digits than a float, and more than it has room for."""
    far = abs(one - other)
    if not far:
        return _SAME
    is_close = far <= Fraction(atol) + Fraction(rtol) * abs(other)
    try:
        max_abs = float(far)
    except OverflowError:
        max_abs = math.inf
    return int(not is_close), max_abs, far / max(abs(one), abs(other))


def _distance(one: Any, other: Any, rtol: float, atol: float) -> _Distance:
    """How many elements differ by more than allowed, and the largest differences of all."""
    have_distances = has_numbers(one.dtype) and has_numbers(other.dtype)
    count, max_abs, max_rel = 0, 0.0, 0.0
    for left, right in in_step(one, other):
        if left.dtype == right.dtype and same_bits(left, right):
            continue
        for start in range(0, left.size, BLOCK):
            a, b = left[start : start + BLOCK], right[start : start + BLOCK]
            if not have_distances:
                differ = _unequal(a, b)
                far = relative = np.where(differ, np.inf, 0.0)
            else:
                far, relative = _apart(a, b)
                differ = far > 0
                if rtol or atol:
                    with np.errstate(all="ignore"):
                        differ &= ~(far <= atol + rtol * np.abs(wide(b))) | np.isinf(far)  # which no tolerance reaches
            count += int(np.count_nonzero(differ))
            max_abs, max_rel = max(max_abs, float(far.max())), max(max_rel, float(relative.max()))
    return count, max_abs, max_rel


def _unequal(one: HostArray, other: HostArray) -> HostArray:
    """Which elements differ that have no distance: text, dates, bytes. NaT equals NaT."""
    if one.dtype == other.dtype:
        left, right = (np.ascontiguousarray(array).view(np.uint8).reshape(array.size, -1) for array in (one, other))
        return np.asarray((left != right).any(axis=1))
    if "V" in (one.dtype.kind, other.dtype.kind):
        return np.ones(one.shape, bool)  # numpy compares bytes with nothing else
    return np.asarray((one != other) & ((one == one) | (other == other)))


def _apart(one: HostArray, other: HostArray) -> tuple[HostArray, HostArray]:
    """Absolute and relative distances, in float64."""
    far = _far(one, other)
    with np.errstate(all="ignore"):
        scale = np.maximum(np.abs(wide(one)), np.abs(wide(other)))
        relative = np.where(far == 0, 0.0, far / scale)
    return far, np.where(np.isnan(relative), np.inf, relative)


def _far(one: HostArray, other: HostArray) -> HostArray:
    if one.dtype == other.dtype and one.dtype.kind in "iu" and one.dtype.itemsize == 8:
        larger, smaller = np.maximum(one, other), np.minimum(one, other)
        exact: HostArray = (larger.astype(np.uint64) - smaller.astype(np.uint64)).astype(np.float64)
        return exact  # float64 has too few digits to subtract in
    a, b = wide(one), wide(other)
    with np.errstate(all="ignore"):
        far = np.abs(a - b)
    same = (a == b) | ((a != a) & (b != b))  # infinities, and NaN with NaN
    return np.where(same, 0.0, np.where(np.isnan(far), np.inf, far))


def nbytes_of(tree: Mapping[str, Any]) -> int:
    return sum(leaf.nbytes for _, leaf in flatten(tree) if is_stored_array(leaf))
