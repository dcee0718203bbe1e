"""Comparing trees leaf by leaf, in little memory: are they the same, and if not, how far apart."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from attrs import frozen

from treaty.runtime._lazy import HostArray
from treaty.runtime._same import BLOCK, in_step, same_bits, same_value
from treaty.runtime._trees import flatten, is_stored_array, shown


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
    """All leaves that differ by more than `atol + rtol * abs(right)`, or in shape, dtype or kind.

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
        return None if same_value(one, other) or _close(one, other, rtol, atol) else _values(path, ends, one, other)
    if tuple(one.shape) != tuple(other.shape):
        return Difference(path, "shape", *ends)
    count, max_abs, max_rel = _distance(one, other, rtol, atol)
    if one.dtype != other.dtype:
        return Difference(path, "dtype", *ends, count, max_abs, max_rel)
    return Difference(path, "values", *ends, count, max_abs, max_rel) if count else None


def _values(path: tuple[str, ...], ends: tuple[str, str], one: Any, other: Any) -> Difference:
    if isinstance(one, (int, float, complex, np.generic)):
        far, rel = _apart(np.asarray([one]), np.asarray([other]))
        return Difference(path, "values", *ends, 1, float(far[0]), float(rel[0]))
    return Difference(path, "values", *ends, 1, math.inf, math.inf)


def _close(one: Any, other: Any, rtol: float, atol: float) -> bool:
    if type(one) not in (int, float, complex) and not isinstance(one, np.generic):
        return False
    far, _ = _apart(np.asarray([one]), np.asarray([other]))
    return bool(far[0] <= atol + rtol * abs(other))


def _distance(one: Any, other: Any, rtol: float, atol: float) -> tuple[int, float, float]:
    """How many elements differ by more than allowed, and the largest differences of all."""
    if _is_text(one.dtype) or _is_text(other.dtype):
        unequal = sum(int((left != right).sum()) for left, right in in_step(one, other))
        return unequal, math.inf if unequal else 0.0, math.inf if unequal else 0.0
    count, max_abs, max_rel = 0, 0.0, 0.0
    for left, right in in_step(one, other):
        if left.dtype == right.dtype and same_bits(left, right):
            continue
        for start in range(0, left.size, BLOCK):
            a, b = left[start : start + BLOCK], right[start : start + BLOCK]
            far, relative = _apart(a, b)
            allowed = atol + rtol * np.abs(_wide(b)) if rtol or atol else 0.0
            with np.errstate(invalid="ignore"):
                count += int(np.count_nonzero(~(far <= allowed)))
            max_abs, max_rel = max(max_abs, float(far.max())), max(max_rel, float(relative.max()))
    return count, max_abs, max_rel


def _is_text(dtype: "np.dtype[Any]") -> bool:
    """Whether elements have no distance: text, bytes, dates."""
    return dtype.kind in "SUMm" or (dtype.kind == "V" and dtype.type is np.void)


def _apart(one: HostArray, other: HostArray) -> tuple[HostArray, HostArray]:
    """Absolute and relative distances, in float64."""
    far = _far(one, other)
    with np.errstate(all="ignore"):
        scale = np.maximum(np.abs(_wide(one)).astype(np.float64), np.abs(_wide(other)).astype(np.float64))
        relative = np.where(far == 0, 0.0, far / scale)
    return far, np.where(np.isnan(relative), np.inf, relative)


def _far(one: HostArray, other: HostArray) -> HostArray:
    if one.dtype == other.dtype and one.dtype.kind in "iu" and one.dtype.itemsize == 8:
        larger, smaller = np.maximum(one, other), np.minimum(one, other)
        exact: HostArray = (larger.astype(np.uint64) - smaller.astype(np.uint64)).astype(np.float64)
        return exact  # float64 has too few digits to subtract in
    a, b = _wide(one), _wide(other)
    with np.errstate(all="ignore"):
        far = np.abs(a - b).astype(np.float64)
    same = (a == b) | ((a != a) & (b != b))  # infinities, and NaN with NaN
    return np.where(same, 0.0, np.where(np.isnan(far), np.inf, far))


def _wide(array: HostArray) -> HostArray:
    """Numbers of any dtype as float64 or complex128, which hold all of 32 bits and below exactly."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def nbytes_of(tree: Mapping[str, Any]) -> int:
    return sum(leaf.nbytes for _, leaf in flatten(tree) if is_stored_array(leaf))
