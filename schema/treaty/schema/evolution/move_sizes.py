"""What rules with layouts say of sizes: which axis of the later revision is which of the earlier one.

Only what a layout says by itself is compared. An axis of stacked layers has no counterpart, and an axis that stands on
neither side alone is left to the restore.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from attrs import frozen

from treaty.schema import ir
from treaty.schema._key_patterns import REST, Axis
from treaty.schema.dims import Expr, Int, Name, Op, Operator, names
from treaty.schema.evolution.resolution import Path
from treaty.schema.evolution.sizes import SizePair
from treaty.schema.keymap import Leg, Rule


@frozen
class LegArrays:
    """An array of the earlier revision, and one that is made of it or is a part of it, or it of that."""

    leg: Leg
    stored: ir.Type
    field: ir.Type
    path: Path  # of the field


@frozen
class _Axes:
    """Both sides of a layout: the names of each axis, and its size. Of a name there is a size where it is an axis alone."""

    stored: Sequence[Axis]
    field: Sequence[Axis]
    stored_sizes: Sequence[Expr]
    field_sizes: Sequence[Expr]

    def stored_by_field(self) -> list[Expr | None]:
        """The size of each stored axis in terms of the field's."""
        return _by_names(self.stored, _alone(self.field, self.field_sizes))

    def field_by_stored(self) -> list[Expr | None]:
        return _by_names(self.field, _alone(self.stored, self.stored_sizes))


def size_pairs(rule: Rule, legs: Sequence[Sequence[LegArrays]]) -> list[SizePair]:
    """`legs` has for each name of a rule the arrays that it leads from and to."""
    return [pair for pair in _all_pairs(rule, legs) if not _is_said_by_rule(pair)]


def _is_said_by_rule(pair: SizePair) -> bool:
    """That `three_d` is `3*d` nobody said before the rule: it is for the restore to see."""
    is_free = isinstance(pair.writer, Name) and pair.writer.name not in names(pair.reader)
    return is_free and not isinstance(pair.reader, Name)


def _all_pairs(rule: Rule, legs: Sequence[Sequence[LegArrays]]) -> Iterator[SizePair]:
    is_cut = len(legs) > 1
    for arrays in legs:
        for one in arrays:
            yield from _of_one(one, _axes(one), rule.axis if is_cut else None, _is_stored_whole(rule))
    if is_cut and all(len(arrays) == 1 for arrays in legs):
        yield from _of_whole(rule, [arrays[0] for arrays in legs])


def _of_one(one: LegArrays, axes: _Axes, cut: int | None, is_stored_whole: bool) -> Iterator[SizePair]:
    """All axes but the one along which an array is cut, or parts are joined."""
    whole = axes.stored if is_stored_whole else axes.field
    cut_names = set() if cut is None else set(whole[cut % len(whole)])
    stored, field = axes.stored_by_field(), axes.field_by_stored()
    for axis, by_field, size in zip(axes.stored, stored, axes.stored_sizes, strict=True):
        if by_field is not None and cut_names.isdisjoint(axis):
            yield SizePair(by_field, size, one.path)
    for axis, by_stored, size in zip(axes.field, field, axes.field_sizes, strict=True):
        if by_stored is not None and len(axis) != 1 and cut_names.isdisjoint(axis):
            yield SizePair(size, by_stored, one.path)


def _of_whole(rule: Rule, parts: Sequence[LegArrays]) -> Iterator[SizePair]:
    """The axis that is cut: as long as its parts together."""
    assert rule.axis is not None
    sides = [_axes(one) for one in parts]
    first = sides[0]
    if _is_stored_whole(rule):
        at = rule.axis % len(first.stored)
        by_field = [one.stored_by_field()[at] for one in sides]
        if (total := _sum(by_field)) is not None:
            yield SizePair(total, first.stored_sizes[at], parts[0].path)
    else:
        at = rule.axis % len(first.field)
        by_stored = [one.field_by_stored()[at] for one in sides]
        if (total := _sum(by_stored)) is not None:
            yield SizePair(first.field_sizes[at], total, parts[0].path)


def _axes(one: LegArrays) -> _Axes:
    assert isinstance(one.stored, ir.Array)
    assert isinstance(one.field, ir.Array)
    stored, field = ([dim.size for dim in side.dims] for side in (one.stored, one.field))
    layout = one.leg.layout
    if layout is None:
        rest = [(f"{REST}{number}",) for number in range(len(stored))]
        return _Axes(rest, rest, stored, field)
    open_ = len(stored) - sum(axis != (REST,) for axis in layout.stored)
    return _Axes(_spelled(layout.stored, open_), _spelled(layout.field, open_), stored, field)


def _spelled(axes: Sequence[Axis], rest: int) -> list[Axis]:
    """With a name for each axis that `...` stands for."""
    found: list[Axis] = []
    for axis in axes:
        found += [(f"{REST}{number}",) for number in range(rest)] if axis == (REST,) else [axis]
    return found


def _alone(axes: Sequence[Axis], sizes: Sequence[Expr]) -> Mapping[str, Expr]:
    return {axis[0]: size for axis, size in zip(axes, sizes, strict=True) if len(axis) == 1}


def _by_names(axes: Sequence[Axis], sizes: Mapping[str, Expr]) -> list[Expr | None]:
    return [_folded("*", [sizes.get(name) for name in axis], Int(1)) for axis in axes]


def _sum(sizes: Sequence[Expr | None]) -> Expr | None:
    return _folded("+", sizes, Int(0))


def _folded(op: Operator, sizes: Sequence[Expr | None], of_none: Expr) -> Expr | None:
    known = [one for one in sizes if one is not None]
    if len(known) < len(sizes):
        return None
    return reduce(lambda left, right: Op(op, left, right), known) if known else of_none


def _is_stored_whole(rule: Rule) -> bool:
    """Whether it is the stored array that is cut, and not the field that is joined."""
    return isinstance(rule.stored, str) or len(rule.stored) == 1
