"""What a change breaks: every revision that was locked, resolved to the present declaration. Pure; `treaty check` prints it.

A breach of a class is told where it is, and not again of every class that reaches it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

import attrs
from attrs import frozen

from treaty.schema import ir
from treaty.schema.evolution.history import Histories, History
from treaty.schema.evolution.meanings import changed_meanings
from treaty.schema.evolution.resolution import EACH, LoadKind, Path, Problem, SilentKind
from treaty.schema.evolution.resolve import Resolver


@frozen
class Breach:
    """A change that earlier checkpoints of a class do not survive, or survive as something else."""

    rule: Literal["SILENT", "LOAD"]
    kind: SilentKind | LoadKind
    symbol: str
    path: Path
    message: str
    hint: str
    revisions: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """`LOAD-removed`: what a waiver and the documentation call it."""
        return f"{self.rule}-{self.kind}"


def breaches(
    present: Mapping[str, ir.Schema], histories: Histories, orphaned: Mapping[str, Iterable[int]] | None = None
) -> list[Breach]:
    """Of the classes of a module, by symbol: what of their locked revisions cannot be restored, or not surely."""
    resolver = Resolver(histories)
    found: dict[tuple[object, ...], Breach] = {}
    for symbol, schema in present.items():
        history = histories(symbol)
        if history is None:
            continue
        given_up = set((orphaned or {}).get(symbol, ()))
        for number in (one.number for one in history.revisions if one.number not in given_up):
            for problem in _problems(resolver, history, number, schema):
                _add(found, _breach(symbol, number, problem))
        for number, problem in changed_meanings(resolver, history, schema, given_up):
            _add(found, _breach(symbol, number, problem))
    return list(_told_once(found.values(), present))


def breaches_of(
    present: Mapping[str, ir.Schema], writers: Iterable[tuple[str, int, ir.Schema]], histories: Histories
) -> list[Breach]:
    """The same of revisions that no history has, each with the symbol of its class and its number: where else they were locked."""
    resolver = Resolver(histories)
    found: dict[tuple[object, ...], Breach] = {}
    for symbol, number, writer in writers:
        outcome = resolver.resolve(writer, present[symbol])
        for problem in (*outcome.problems, *outcome.conditions):
            _add(found, _breach(symbol, number, problem))
    return list(_told_once(found.values(), present))


def _problems(resolver: Resolver, history: History, number: int, present: ir.Schema) -> Iterator[Problem]:
    revision = history[number]
    is_same = revision.digest == present.digest and revision.schema.symbols == present.symbols
    if is_same and not history.steps and not resolver.has_steps(present):
        return
    is_known = len(history.numbers(revision.schema)) == 1
    outcome = resolver.resolve(revision.schema, present, {} if is_known else {history.symbol: number})
    yield from outcome.problems
    yield from outcome.conditions


def _breach(symbol: str, number: int, problem: Problem) -> Breach:
    message = f"expected {problem.expected}, got {problem.got}"
    return Breach(problem.rule, problem.kind, symbol, problem.path, message, problem.hint, (number,))


def _add(found: dict[tuple[object, ...], Breach], breach: Breach) -> None:
    """The same of several revisions is one."""
    key = (breach.name, breach.symbol, breach.path, breach.message)
    known = found.get(key)
    found[key] = breach if known is None else attrs.evolve(known, revisions=(*known.revisions, *breach.revisions))


def _told_once(found: Collection[Breach], present: Mapping[str, ir.Schema]) -> Iterator[Breach]:
    """Without those of classes that reach another of which the same is told."""
    alike: dict[tuple[str, Path], list[Breach]] = {}
    for one in found:
        alike.setdefault((one.name, one.path[-1:]), []).append(one)
    for one in found:
        # The path of the lower one is an end of the other, or empty.
        others = (*alike[one.name, one.path[-1:]], *alike.get((one.name, ()), ()))
        if not any(_is_below(other, one, present) for other in others):
            yield one


def _is_below(other: Breach, one: Breach, present: Mapping[str, ir.Schema]) -> bool:
    """Whether a breach is that of a class which is there on its path."""
    below, above = other.path, one.path
    if other.symbol == one.symbol or len(below) >= len(above) or above[len(above) - len(below) :] != below:
        return False
    if _class_at(present[one.symbol], above[: len(above) - len(below)]) != other.symbol:
        return False
    # A generic class says of its variables what those that fill them in say of types.
    return other.message == one.message or bool(present[other.symbol].root_class.args)


def _class_at(schema: ir.Schema, path: Path) -> str | None:
    """The symbol of the class at a path, if there is one."""
    schema = schema.gathered
    type: ir.Type = ir.Node(schema.root)
    for key in path:
        found = (ir.parts(schema, type, (EACH,)) or {}).get(key)
        if found is None:
            return None
        type = found.item if isinstance(found, ir.Optional) else found
    return schema[type.cls].symbol if isinstance(type, ir.Node) else None
