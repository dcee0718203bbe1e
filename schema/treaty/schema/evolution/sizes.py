"""Dims of two revisions of a class: which of the reader's names are which sizes of the writer's.

Names may change, as long as each of the reader's stands for one size of the writer's. A name that both have must be on the
same axis: else a square kernel would be transposed without a word.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, assert_never

from attrs import define, field, frozen

from treaty.schema import ir
from treaty.schema.dims import Expr, Int, Name, Op, definition_order, names, substituted
from treaty.schema.evolution.resolution import EACH, Path, Problem

_Terms: TypeAlias = Mapping[tuple[str, ...], int]  # a sum: factors -> how often


@frozen
class SizePair:
    """A size of the reader where the writer has another, and where."""

    reader: Expr
    writer: Expr
    path: Path
    label: str | None = None  # of the axis in the reader, which is a name for its size


@define
class Sizes:
    """What the fields of one class say of its dims."""

    writer: Mapping[str, Expr]  # the writer's dims by name, labels as what they are defined by
    pairs: list[SizePair] = field(factory=list)
    assumed: list[SizePair] = field(factory=list)  # across a migration, which may give other sizes under the same names
    problems: list[Problem] = field(factory=list)
    conditions: list[Problem] = field(factory=list)

    def add(self, reader: Expr, writer: Expr, path: Path, label: str | None = None) -> None:
        self.pairs.append(SizePair(reader, substituted(writer, self.writer), path, label))

    def solve(self) -> dict[str, Expr]:
        """The size of the writer that each name of the reader stands for; fills `problems` and `conditions`."""
        named: dict[str, list[SizePair]] = {}
        arrays: dict[Path, list[SizePair]] = {}
        for pair in self.pairs:
            arrays.setdefault(pair.path, []).append(pair)
            for name in _plain_names(pair):
                named.setdefault(name, []).append(pair)
        found = {name: self._size(name, pairs, arrays) for name, pairs in named.items()}
        products = [pair for pair in self.pairs if not isinstance(pair.reader, Name)]
        for pair in products:
            self._complete(pair, found)
        for pair in products:
            self._compare(pair, found)
        for pair in self.assumed:
            if isinstance(pair.reader, Name):
                found.setdefault(pair.reader.name, pair.writer)
            wanted = substituted(pair.reader, found)
            if _terms(wanted) != _terms(pair.writer):
                self.conditions.append(_tied(str(pair.reader), wanted, pair))
        return found

    def _size(self, name: str, pairs: Sequence[SizePair], arrays: Mapping[Path, Sequence[SizePair]]) -> Expr:
        """What a name of the reader stands for: the writer's size of that name, where that is still on some axis."""
        own = self.writer.get(name)
        same = [pair for pair in pairs if own is not None and _terms(pair.writer) == _terms(own)]
        stays = (same or pairs)[0]
        permuted = [pair for pair in pairs if own is not None and _has_swapped(name, own, pair, arrays[pair.path])]
        if own is not None and not same and stays not in permuted:
            permuted.append(stays)
        self.problems += [_permuted(name, pair) for pair in permuted]
        for pair in pairs:
            if pair not in permuted and _terms(pair.writer) != _terms(stays.writer):
                self.conditions.append(_tied(name, stays.writer, pair))
        if _is_of_each(stays.writer) and not _is_of_each(Name(name)):
            self.conditions.append(_tied(name, Name(f"{stays.writer} of one item"), stays))
        return stays.writer

    def _complete(self, pair: SizePair, found: dict[str, Expr]) -> None:
        """Names that are on no axis of their own: the writer's of that name, or one that the size can be solved for."""
        unknown = [name for name in names(pair.reader) if name not in found]
        found.update({name: self.writer[name] for name in unknown if name in self.writer})
        unknown = [name for name in unknown if name not in found]
        if len(unknown) == 1 and (solved := _solved(unknown[0], pair.reader, pair.writer, found)) is not None:
            found[unknown[0]] = solved

    def _compare(self, pair: SizePair, found: Mapping[str, Expr]) -> None:
        if not all(name in found for name in names(pair.reader)):
            return
        wanted = substituted(pair.reader, found)
        if _terms(wanted) == _terms(pair.writer):
            return
        problem = Problem(
            "LOAD",
            "size",
            f"a size of {pair.reader}",
            str(pair.writer),
            pair.path,
            "write a name for the axis, or a migration" if isinstance(pair.writer, Int) else "",
        )
        both_fixed = isinstance(wanted, Int) and isinstance(pair.writer, Int)
        (self.problems if both_fixed else self.conditions).append(problem)


def writer_sizes(cls: ir.Class) -> dict[str, Expr]:
    """The dims of a class, those that labels define as what they are defined by."""
    found: dict[str, Expr] = {name: Name(name) for name in cls.dims}
    defined = dict(cls.definitions)
    for name in definition_order(defined):
        found[name] = substituted(defined[name], found)
    return found


def _is_of_each(size: Expr) -> bool:
    """Whether it is a size of each item of a list or dict, and so as many as there are items."""
    return any(EACH in name.split(".") for name in names(size))


def _solved(name: str, reader: Expr, writer: Expr, found: Mapping[str, Expr]) -> Expr | None:
    """What a name has to be, so that the reader's size is the writer's: `n` of `2*n` is `d` where that was `2*d`."""
    own = f"?{name}"
    terms = _terms(substituted(reader, {**found, name: Name(own)}))
    factor = terms.get((own,), 0)
    rest = {key: count for key, count in terms.items() if own in key}
    if len(rest) != 1 or not factor:
        return None
    left = _sum(_terms(writer), {key: count for key, count in terms.items() if own not in key}, -1)
    if any(count % factor for count in left.values()):
        return None
    return _as_size({key: count // factor for key, count in left.items()})


def _as_size(terms: _Terms) -> Expr:
    total: Expr | None = None
    for key, count in terms.items():
        product: Expr = Int(count)
        for name in key:
            product = Name(name) if product == Int(1) else Op("*", product, Name(name))
        total = product if total is None else Op("+", total, product)
    return total or Int(0)


def _plain_names(pair: SizePair) -> Iterable[str]:
    if pair.label is not None:
        yield pair.label
    if isinstance(pair.reader, Name) and pair.reader.name != pair.label:
        yield pair.reader.name


def _has_swapped(name: str, own: Expr, pair: SizePair, array: Iterable[SizePair]) -> bool:
    """Whether a name has left the axis of an array that it was on, for another of the same array."""
    if _terms(pair.writer) == _terms(own):
        return False
    return any(_terms(one.writer) == _terms(own) and name not in _plain_names(one) for one in array)


def _permuted(name: str, pair: SizePair) -> Problem:
    return Problem(
        "SILENT",
        "dims-permuted",
        f"{name} on the axis that it was on",
        f"it where {pair.writer} was",
        pair.path,
        "if the axes changed places, write a migration with a layout; if only names did, take names that were not there before",
    )


def _tied(name: str, first: Expr, pair: SizePair) -> Problem:
    return Problem(
        "LOAD",
        "tie",
        f"one size for {name}",
        f"{first} and {pair.writer}, which may differ",
        pair.path,
        "give the axis a name of its own",
    )


def _terms(expr: Expr) -> _Terms:
    """A sum of products, so that 2*d and d+d are one; a quotient counts as a name."""
    if isinstance(expr, Int):
        return {(): expr.value} if expr.value else {}
    if isinstance(expr, Name):
        return {(expr.name,): 1}
    if not isinstance(expr, Op):
        assert_never(expr)
    left, right = _terms(expr.left), _terms(expr.right)
    match expr.op:
        case "+":
            return _sum(left, right, 1)
        case "-":
            return _sum(left, right, -1)
        case "*":
            found: dict[tuple[str, ...], int] = {}
            for one, count in left.items():
                for other, times in right.items():
                    key = tuple(sorted((*one, *other)))
                    found[key] = found.get(key, 0) + count * times
            return {key: count for key, count in found.items() if count}
        case "//":
            return {(f"({sorted(left.items())})//({sorted(right.items())})",): 1}
        case _:
            assert_never(expr.op)


def _sum(left: _Terms, right: _Terms, sign: int) -> _Terms:
    found = dict(left)
    for key, count in right.items():
        found[key] = found.get(key, 0) + sign * count
    return {key: count for key, count in found.items() if count}
