"""Decides how generated code comes to know dims: from a path that is surely there, or by looking around."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import assert_never

from attrs import frozen

from treaty.generator._names import literal, local, loop_variable
from treaty.schema import Schema, ir
from treaty.schema.dims import Expr, names, render
from treaty.schema.sources import Each, Item, Present, Source, Step, sources


@frozen
class Path:
    """`state["up"]["kernel"].shape[0]`, or the len() of such a path; dim = (size - b) // a."""

    steps: tuple[str, ...]
    length: bool
    a: int
    b: int

    def text(self, start: str = "state") -> str:
        at = start + "".join(self.steps)
        return solve(f"len({at})" if self.length else at, self.a, self.b)


def solve(size: str, a: int, b: int) -> str:
    """The dim as source text, where size = a*dim + b."""
    if b:
        return f"_codec.solve({size}, {a}, {b})"
    return f"{size} // {a}" if a != 1 else size


def sure_path(schema: Schema, cls: ir.Class, dim: str, seen: frozenset[tuple[str, str]] = frozenset()) -> Path | None:
    """A path to the dim that every valid state has, or None where it may be absent."""
    if (cls.id, dim) in seen:
        return None
    for source in sources(schema, cls, dim):
        if source.conditional:
            continue
        keys = (source.key, *(step.key for step in source.steps if isinstance(step, Item)))
        steps = tuple(f"[{literal(key)}]" for key in keys)
        if source.child is None:
            return Path((*steps, *_axis(source)), source.axis is None, source.a, source.b)
        below = sure_path(schema, schema[source.child[0]], source.child[1], seen | {(cls.id, dim)})
        if below is not None and below.a == 1 and below.b == 0:
            return Path((*steps, *below.steps), below.length, source.a, source.b)
        if below is not None and source.a == 1 and source.b == 0:
            return Path((*steps, *below.steps), below.length, below.a, below.b)
    return None


def look_around(schema: Schema, cls: ir.Class, dim: str, peek: Callable[[str, str], str]) -> list[str]:
    """The body of a function that tries every source in turn. `peek` names such functions of other classes."""
    lines: list[str] = []
    variables = map(loop_variable, count())  # one for each loop: to mypy a name has one type in a function
    for source in sources(schema, cls, dim):
        lines += _try(schema, source, source.steps, f"state[{literal(source.key)}]", variables, peek)
    return [*lines, "return None"]


def _try(
    schema: Schema,
    source: Source,
    steps: tuple[Step, ...],
    at: str,
    variables: Iterator[str],
    peek: Callable[[str, str], str],
) -> list[str]:
    if steps:
        step, rest = steps[0], steps[1:]
        if isinstance(step, Item):
            return _try(schema, source, rest, f"{at}[{literal(step.key)}]", variables, peek)
        if isinstance(step, Present):
            inner = _try(schema, source, rest, at, variables, peek)
            return [f"if {at} is not None:", *(f"    {line}" for line in inner)]
        if not isinstance(step, Each):
            assert_never(step)
        x = next(variables)
        inner = _try(schema, source, rest, x, variables, peek)
        return [f"for {x} in {at}.values():", *(f"    {line}" for line in inner)]
    if source.child is None:
        size = f"len({at})" if source.axis is None else at + "".join(_axis(source))
        return [f"return {solve(size, source.a, source.b)}"]
    id, dim = source.child
    path = sure_path(schema, schema[id], dim)
    if path is not None:
        return [f"return {solve(path.text(at), source.a, source.b)}"]
    return [
        f"found = {peek(id, dim)}({at})",
        "if found is not None:",
        f"    return {solve('found', source.a, source.b)}",
    ]


def size_text(size: Expr, unsure: frozenset[str]) -> str:
    """A size as source text; with names that may be None, the whole is None while one of them is."""
    text = render(size, local)
    missing = [local(name) for name in dict.fromkeys(names(size)) if name in unsure]
    if not missing or text in missing:
        return text
    return f"None if {' or '.join(f'{name} is None' for name in missing)} else {text}"


def _axis(source: Source) -> tuple[str, ...]:
    if source.axis is None:
        return ()
    return (*(['["data"]'] if source.through_key else []), f".shape[{source.axis}]")
