"""Cutting, joining and re-arranging arrays: views where a view will do, lazy arrays where it will not."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

import jax
import numpy as np

from treaty.runtime._keymaps.derived import Split, derived
from treaty.runtime._lazy import HostArray, LazyArray, Part, Start, host, in_parts, pieces, pieces_of
from treaty.runtime._trees import shown
from treaty.schema._key_patterns import REST, Axis, Layout, names_of

AnyArray: TypeAlias = "HostArray | LazyArray | jax.Array"


class AxesMisfit(Exception):
    """An array does not have the axes that were said; the message says `expected X, got Y`, `at` the tensor."""

    def __init__(self, message: str, at: str | None = None) -> None:
        super().__init__(message)
        self.at = at


def cut(value: Any, axis: int, lengths: Sequence[int]) -> list[AnyArray]:
    """Parts of so many rows along an axis."""
    starts = [sum(lengths[:number]) for number in range(len(lengths))]
    if isinstance(value, np.ndarray):
        before = (slice(None),) * axis
        return [value[(*before, slice(at, at + length))] for at, length in zip(starts, lengths, strict=True)]
    shapes = [(*value.shape[:axis], length, *value.shape[axis + 1 :]) for length in lengths]
    return [derived([value], shape, _cut_at(axis, at)) for shape, at in zip(shapes, starts, strict=True)]


def join(values: Sequence[Any], axis: int) -> AnyArray:
    """One array of parts along an axis."""
    shape = list(values[0].shape)
    shape[axis] = sum(one.shape[axis] for one in values)

    def split(part: Part) -> Iterator[tuple[int, Part]]:
        at = 0
        for number, one in enumerate(values):
            low, high = max(at, part.start[axis]), min(at + one.shape[axis], part.stop[axis])
            if low < high:
                inner: Any = (*(slice(None),) * axis, slice(low - part.start[axis], high - part.start[axis]))
                yield number, Part(_moved(part.start, axis, low - at), part.memory[inner])
            at += one.shape[axis]

    return derived(values, tuple(shape), split, None if axis else lambda: chain.from_iterable(map(pieces_of, values)))


def stack(values: Sequence[Any]) -> AnyArray:
    """One array with a new first axis."""

    def split(part: Part) -> Iterator[tuple[int, Part]]:
        for row, number in enumerate(range(part.start[0], part.stop[0])):
            yield number, Part(part.start[1:], part.memory[row, ...])

    shape = (len(values), *values[0].shape)
    return derived(values, shape, split, lambda: chain.from_iterable(map(pieces_of, values)))


def take(value: Any, index: int) -> AnyArray:
    """One item along the first axis."""
    if isinstance(value, np.ndarray):
        item: HostArray = value[index, ...]  # of one axis, an array without axes and not a scalar
        return item

    def split(part: Part) -> Iterator[tuple[int, Part]]:
        yield 0, Part((index, *part.start), part.memory[np.newaxis])

    return derived([value], tuple(value.shape[1:]), split)


def rearrange(value: Any, layout: Layout, known: Mapping[str, int]) -> AnyArray:
    """The array with the axes of the layout's left side, laid out as its right side says."""
    left, right = (_spelled(side, value.ndim, layout.stored) for side in (layout.stored, layout.field))
    sizes = _solve(value, left, known)
    apart = tuple(sizes[name] for name in names_of(left))
    order = tuple(names_of(left).index(name) for name in names_of(right))
    together = tuple(math.prod(sizes[name] for name in axis) for axis in right)

    def spread(array: HostArray) -> HostArray:
        return array.reshape(apart).transpose(order)

    if not isinstance(value, np.ndarray):
        if all(len(axis) == 1 for axis in (*left, *right)):
            return _transposed(value, order)
        return LazyArray(together, value.dtype, lambda: np.ascontiguousarray(spread(host(value))).reshape(together))
    moved = spread(value)
    if moved.flags.c_contiguous or all(len(axis) < 2 for axis in right):
        return moved.reshape(together)
    return in_parts(together, moved.dtype, lambda: pieces(moved))  # joining axes keeps the order of elements


def lengths_along(
    value: Any, axis: int, sides: Sequence[tuple[Axis, ...] | None], known: Mapping[str, int]
) -> list[int]:
    """How long each part along an axis is: as its layout and the known sizes say, and the rest shared evenly."""
    if not -value.ndim <= axis < value.ndim:
        raise AxesMisfit(f"expected an axis {axis} to cut, got {shown(value)}")
    found: list[int | None] = []
    for side in sides:
        axes = None if side is None else _spelled(side, value.ndim, side)
        if axes is not None and len(axes) != value.ndim:
            raise AxesMisfit(f"expected axes {_side(axes)}, got {shown(value)}")
        names = None if axes is None else axes[axis % value.ndim]
        is_known = names is not None and all(name in known for name in names)
        found.append(math.prod(known[name] for name in names) if names is not None and is_known else None)
    total, open_ = value.shape[axis], found.count(None)
    left = total - sum(length for length in found if length is not None)
    if left < 0 or (open_ == 0 and left) or (open_ and left % open_):
        said = ", ".join("?" if length is None else str(length) for length in found)
        raise AxesMisfit(f"expected an axis {axis} that parts of {said} fill, got {shown(value)}")
    return [left // open_ if length is None else length for length in found]


def _transposed(value: Any, order: tuple[int, ...]) -> LazyArray:
    """Axis by axis: the first of the result is number `order[0]` of the value."""
    back = tuple(order.index(axis) for axis in range(len(order)))

    def split(part: Part) -> Iterator[tuple[int, Part]]:
        yield 0, Part(tuple(part.start[axis] for axis in back), part.memory.transpose(back))

    return derived([value], tuple(value.shape[axis] for axis in order), split)


def _cut_at(axis: int, at: int) -> Split:
    def split(part: Part) -> Iterator[tuple[int, Part]]:
        yield 0, Part(_moved(part.start, axis, part.start[axis] + at), part.memory)

    return split


def _moved(start: Start, axis: int, to: int) -> Start:
    return (*start[:axis], to, *start[axis + 1 :])


def _spelled(side: tuple[Axis, ...], ndim: int, counted: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """A side with a name for each of the axes that REST stands for, which `counted`, the array's own side, tells."""
    rest = tuple((f"{REST}{number}",) for number in range(ndim - len(counted) + 1))
    return tuple(one for axis in side for one in (rest if axis == (REST,) else (axis,)))


def _solve(value: Any, axes: tuple[Axis, ...], known: Mapping[str, int]) -> dict[str, int]:
    if len(axes) != value.ndim:
        raise AxesMisfit(f"expected axes {_side(axes)}, got {shown(value)}")
    sizes: dict[str, int] = {}
    for axis, total in zip(axes, value.shape, strict=True):
        open_ = [name for name in axis if name not in known]
        product = math.prod(known[name] for name in axis if name in known)
        if len(open_) > 1:
            raise AxesMisfit(
                f"expected sizes for all but one of {', '.join(axis)}, got none for {', '.join(open_)}; give them"
            )
        if (total % product if open_ and product else total != product) or (open_ and not product):
            said = ", ".join(f"{name}={known[name]}" for name in axis if name in known)
            raise AxesMisfit(f"expected axes {_side(axes)}{f' with {said}' if said else ''}, got {shown(value)}")
        sizes |= {name: known.get(name, total // product if product else 0) for name in axis}
    return sizes


def _side(axes: tuple[Axis, ...]) -> str:
    return repr(" ".join(axis[0] if len(axis) == 1 else f"({' '.join(axis)})" if axis else "1" for axis in axes))
