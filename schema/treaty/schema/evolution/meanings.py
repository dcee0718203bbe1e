"""Whether an earlier revision still means what it meant when the last one was locked.

A leaf of the present class is made of a checkpoint in two ways: at once, and by way of the last locked revision. Where they lead to
another key or to another default, a checkpoint would be restored without a word as something else than before.
"""

from collections.abc import Collection, Iterator

from attrs import frozen

from treaty.schema import ir
from treaty.schema._default_texts import is_same
from treaty.schema.evolution.history import History
from treaty.schema.evolution.resolution import (
    EACH,
    ConvertLeaf,
    EachItem,
    Fill,
    From,
    Keep,
    Make,
    Path,
    Plan,
    Problem,
    Same,
    Through,
    Unless,
    show,
)
from treaty.schema.evolution.resolve import Resolver


@frozen
class _Origin:
    """Where a leaf comes from: a key of the writer, or a default and what is below it."""

    path: Path
    default: str | None = None

    def __str__(self) -> str:
        return f"what is stored at {show(self.path)}" if self.default is None else f"the default {self.default}"


def changed_meanings(
    resolver: Resolver, history: History, present: ir.Schema, given_up: Collection[int]
) -> Iterator[tuple[int, Problem]]:
    """What of each revision becomes something else than it did in the last one. Resolved anew, by nobody's word but the lock's."""
    if history.last < 2 or not (paths := list(_leaves(resolver, present))):
        return
    if _own(resolver, history[history.last].schema) == _own(resolver, present):
        return
    then = resolver.resolve(history[history.last].schema, present, {history.symbol: history.last}).plan
    for number in range(1, history.last):
        if number in given_up:
            continue
        direct = resolver.resolve(history[number].schema, present, {history.symbol: number})
        if direct.problems:
            continue  # which have to be told first
        first = resolver.between(history, number, history.last).plan
        found: dict[Problem, None] = {}
        for path in paths:
            now, before = _origin(direct.plan, path), _by_way_of(first, then, path)
            if now is not None and before is not None and not _are_one(now, before):
                found[_problem(now, before, path)] = None
        yield from ((number, problem) for problem in found)


def _problem(now: _Origin, before: _Origin, path: Path) -> Problem:
    if now.default is not None and before.default is not None:
        return Problem(
            "SILENT",
            "default",
            f"{before}, which stands for the field in earlier checkpoints",
            now.default,
            path[: len(path) - len(now.path)],  # of the field that it is the default of
            "keep it, or write a migration that says what earlier checkpoints mean",
        )
    hint = "take a key that was never used, or write a migration that says what earlier checkpoints mean"
    return Problem("SILENT", "reused", f"{before}, as in the last locked revision", str(now), path, hint)


def _own(resolver: Resolver, schema: ir.Schema) -> list[ir.Class]:
    """What a class says itself, or by classes that have no history of their own."""
    root = schema.root_class
    return [cls for cls in schema.classes if cls is root or not _has_history(resolver, cls)]


def _has_history(resolver: Resolver, cls: ir.Class) -> bool:
    history = resolver.histories(cls.symbol)
    return history is not None and bool(history.revisions)


def _leaves(resolver: Resolver, schema: ir.Schema) -> Iterator[Path]:
    """The paths of leaves, and of classes that tell of themselves."""
    schema = schema.gathered

    def walk(type: ir.Type, path: Path, above: tuple[str, ...]) -> Iterator[Path]:
        if isinstance(type, ir.Optional):
            type = type.item
        if isinstance(type, ir.Node):
            cls = schema[type.cls]
            if type.cls in above or (above and _has_history(resolver, cls)):
                yield path
                return
            above = (*above, type.cls)
        parts = None if isinstance(type, ir.Leaf) else ir.parts(schema, type, (EACH,))
        if not parts:
            yield path
        for key, part in (parts or {}).items():
            yield from walk(part, (*path, key), above)

    yield from walk(ir.Node(schema.root), (), ())


def _by_way_of(first: Plan, then: Plan, path: Path) -> _Origin | None:
    later = _origin(then, path)
    return later if later is None or later.default is not None else _origin(first, later.path)


def _origin(plan: Plan, path: Path) -> _Origin | None:
    """What the leaf at a path is made of; None where only a migration knows."""
    if isinstance(plan, Unless):
        return _origin(plan.plan, path)
    if isinstance(plan, Same):
        return None if plan.plan is None else _origin(plan.plan, path)
    if isinstance(plan, (Keep, ConvertLeaf)) or not path:
        return None if isinstance(plan, Through) else _Origin(path)
    if isinstance(plan, Through):
        return None
    if isinstance(plan, EachItem):
        return _below(path[:1], _origin(plan.plan, path[1:]))
    part = _part(plan, path[0])
    if isinstance(part, Fill):
        return _Origin(path[1:], part.default)
    return None if part is None else _below((part.key,), _origin(part.plan, path[1:]))


def _part(plan: Make, key: str) -> From | Fill | None:
    return next((origin for name, origin in plan.parts if name == key), None)


def _below(keys: Path, origin: _Origin | None) -> _Origin | None:
    return origin if origin is None or origin.default is not None else _Origin((*keys, *origin.path))


def _are_one(now: _Origin, before: _Origin) -> bool:
    if now.default is None or before.default is None:
        return now == before
    # Of a default that is a whole subtree nothing is known of what is inside.
    return now.path != before.path or is_same(before.default, now.default)
