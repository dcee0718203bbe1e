"""Sizes that follow others: from what an axis is under several assignments of sizes to the expression that gives it.

Whoever calls a factory with `d_model` 6 and 10 and sees an axis of 24 and 40 learns that it is `4*d_model`. Pure, and
exact: an expression is one only if it gives every size that was seen.
"""

from collections.abc import Iterator, Mapping, Sequence

from treaty.schema.dims import Expr, Int, Name, Op, evaluate


def solve(assignments: Sequence[Mapping[str, int]], sizes: Sequence[int]) -> Expr | None:
    """The simplest expression that is `sizes[k]` under `assignments[k]` for every k; None where there is none.

    A size that never varies is a number, also where it equals that of a name. Where the assignments cannot tell two
    expressions apart, the name that comes first is taken: vary each name for itself, too, to tell all of them apart.
    """
    if len(set(sizes)) == 1:
        return Int(sizes[0])
    return next((one for one in _candidates(assignments, sizes) if _fits(one, assignments, sizes)), None)


def _fits(expr: Expr, assignments: Sequence[Mapping[str, int]], sizes: Sequence[int]) -> bool:
    return all(evaluate(expr, given) == size for given, size in zip(assignments, sizes, strict=True))


def _candidates(assignments: Sequence[Mapping[str, int]], sizes: Sequence[int]) -> Iterator[Expr]:
    """What may fit, simplest first; each fits at least two assignments whose sizes differ."""
    names = [Name(name) for name in assignments[0]]
    pairs: list[Expr] = [Op("*", one, other) for n, one in enumerate(names) for other in names[n:]]
    quotients: list[Expr] = [Op("//", one, other) for one in names for other in names if one != other]
    sums: list[Expr] = [Op("+", one, other) for n, one in enumerate(names) for other in names[n + 1 :]]
    yield from names
    for base in (*names, *pairs, *quotients, *sums):
        yield from _linear(base, assignments, sizes)
    for name in names:
        yield from (Op("//", name, Int(by)) for by in _divisors(name, assignments, sizes))
    differences: list[Expr] = [Op("-", one, other) for one in names for other in names if one != other]
    for base in differences:
        yield from _linear(base, assignments, sizes)
    for pair in pairs:
        for name in names:
            rest = [size - given[name.name] for size, given in zip(sizes, assignments, strict=True)]
            yield from (Op("+", one, name) for one in _linear(pair, assignments, rest))
    for one in names:
        for other in names:
            if one != other:
                yield from _two(one, other, assignments, sizes)


def _linear(base: Expr, assignments: Sequence[Mapping[str, int]], sizes: Sequence[int]) -> Iterator[Expr]:
    """`a*base + b` through two of the points."""
    values = [evaluate(base, given) for given in assignments]
    for value, size in zip(values[1:], sizes[1:], strict=True):
        first = values[0]
        if first is None or value is None or value == first:
            continue
        a, left = divmod(size - sizes[0], value - first)
        if left == 0 and a > 0:
            yield _plus(_times(a, base), sizes[0] - a * first)
        return


def _divisors(name: Name, assignments: Sequence[Mapping[str, int]], sizes: Sequence[int]) -> Iterator[int]:
    """`name // k`, also where it leaves a rest."""
    value, size = max((given[name.name], size) for given, size in zip(assignments, sizes, strict=True))
    if size > 0:
        yield from dict.fromkeys(by for by in (value // size, value // (size + 1) + 1) if by > 1)


def _two(one: Name, other: Name, assignments: Sequence[Mapping[str, int]], sizes: Sequence[int]) -> Iterator[Expr]:
    """`a*one + c*other`, for small whole a."""
    for a in range(1, 9):
        rest = [size - a * given[one.name] for size, given in zip(sizes, assignments, strict=True)]
        for tail in _linear(other, assignments, rest):
            yield Op("+", _times(a, one), tail)


def _times(a: int, base: Expr) -> Expr:
    return base if a == 1 else Op("*", Int(a), base)


def _plus(base: Expr, b: int) -> Expr:
    if b == 0:
        return base
    return Op("+", base, Int(b)) if b > 0 else Op("-", base, Int(-b))
