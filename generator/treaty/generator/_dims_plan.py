"""Decides how generated code comes to know dims: from a path that is surely there, or by looking around."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import assert_never

from attrs import frozen

from treaty.generator._names import gathered_locals, literal, local, loop_variable
from treaty.schema import Schema, ir
from treaty.schema.dims import Expr, names, render
from treaty.schema.sources import DimSource, Each, Item, Present, sources


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


@frozen
class Guard:
    """What must be there for a look to go on: `for item in at.values()`, or without an item `if at is not None`."""

    at: str
    item: str = ""


@frozen
class Look:
    """One place of a dim: below guards, its size; or a call that looks there, and what it `found` as the size."""

    guards: tuple[Guard, ...]
    below: str
    size: str


def looks(schema: Schema, cls: ir.Class, dim: str, peek: Callable[[str, str], str]) -> Iterator[Look]:
    """Every place of a dim in turn. `peek` names the functions that look for dims of other classes."""
    variables = map(loop_variable, count())  # one for each loop: to mypy a name has one type in a function
    gathered = gathered_locals(cls)
    for source in sources(schema, cls, dim):
        at, guards = gathered[source.key] if source.spread else f"state[{literal(source.key)}]", list[Guard]()
        for step in source.steps:
            if isinstance(step, Item):
                at = f"{at}[{literal(step.key)}]"
            elif isinstance(step, Present):
                guards.append(Guard(at))
            elif isinstance(step, Each):
                guards.append(Guard(at, next(variables)))
                at = guards[-1].item
            else:
                assert_never(step)
        yield Look(tuple(guards), *_size_at(schema, source, at, peek))


def _size_at(schema: Schema, source: DimSource, at: str, peek: Callable[[str, str], str]) -> tuple[str, str]:
    """The call that looks below, or "", and the dim as source text."""
    if source.child is None:
        size = f"len({at})" if source.axis is None else at + "".join(_axis(source))
        return "", solve(size, source.a, source.b)
    id, dim = source.child
    path = sure_path(schema, schema[id], dim)
    if path is not None:
        return "", solve(path.text(at), source.a, source.b)
    return f"{peek(id, dim)}({at})", solve("found", source.a, source.b)


def size_text(size: Expr, unsure: frozenset[str]) -> str:
    """A size as source text; with names that may be None, the whole is None while one of them is."""
    text = render(size, local)
    missing = [local(name) for name in dict.fromkeys(names(size)) if name in unsure]
    if not missing or text in missing:
        return text
    return f"None if {' or '.join(f'{name} is None' for name in missing)} else {text}"


def _axis(source: DimSource) -> tuple[str, ...]:
    if source.axis is None:
        return ()
    return (*(['["data"]'] if source.through_key else []), f".shape[{source.axis}]")
