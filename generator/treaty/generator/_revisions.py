"""Which classes need a new revision: what `treaty check` asks for, and `treaty lock` writes."""

from collections.abc import Iterable, Mapping

from attrs import frozen

from treaty.generator._modules import Module
from treaty.schema import Schema
from treaty.schema.evolution.changes import changes
from treaty.schema.evolution.lock import Lock, Released
from treaty.schema.evolution.migrations import Step


@frozen
class Next:
    """The revision that a class has once it is locked, and what is new in it."""

    symbol: str
    number: int
    schema: Schema
    uses: Mapping[str, int]
    changes: tuple[str, ...]
    step: Step | None  # from the revision before

    @property
    def migration(self) -> Released | None:
        return None if self.step is None else Released.of(self.step)


def next_revisions(modules: Iterable[Module], locks: Mapping[str, Lock]) -> dict[str, Next]:
    """By symbol, those that reach others after them where there is no circle. `locks` are by module; one without is not asked.

    A class needs a revision where its digest is new, where a migration begins at its last one, or where a class that it
    reaches is of another revision than it was.
    """
    declared = {symbol: one for module in modules if module.name in locks for symbol, one in module.declared.items()}
    steps = {symbol: one for module in modules for symbol, one in module.steps.items()}
    lines = {symbol: line for lock in locks.values() for symbol, line in lock.lines.items()}
    numbers: dict[str, int] = {}
    for symbol, schema in declared.items():
        history = locks[symbol.partition(":")[0]].history(symbol)
        last = 0 if history is None else history.last
        is_last = history is not None and history.is_last(schema)
        numbers[symbol] = last + (not is_last or last in steps.get(symbol, {}))

    def uses(symbol: str) -> dict[str, int]:
        reached = dict.fromkeys(cls.symbol for cls in declared[symbol].classes)
        return {one: numbers[one] for one in reached if one in numbers and one != symbol}

    def is_behind(symbol: str) -> bool:
        """Whether one of the classes that the last revision used is of a later one now."""
        line = lines.get(symbol)
        if line is None or numbers[symbol] > line.last:
            return False
        then = line[line.last].uses
        names = {one: (one, *(lines[one].former if one in lines else ())) for one in uses(symbol)}
        return any(
            number not in [then.get(name, number) for name in names[one]] for one, number in uses(symbol).items()
        )

    while behind := [symbol for symbol in numbers if is_behind(symbol)]:
        numbers |= {symbol: numbers[symbol] + 1 for symbol in behind}

    found: dict[str, Next] = {}
    for symbol in _children_first(declared):
        line = lines.get(symbol)
        last = 0 if line is None else line.last
        if numbers[symbol] > last:
            lock = locks[symbol.partition(":")[0]]
            texts = changes(lock.history(symbol)[last].schema, declared[symbol]) if last else ()
            found[symbol] = Next(
                symbol, last + 1, declared[symbol], uses(symbol), texts, steps.get(symbol, {}).get(last)
            )
    return found


def _children_first(declared: Mapping[str, Schema]) -> list[str]:
    """In the order of their declaration, but for those that reach others: a reviewer meets the cause before what follows."""
    ordered: dict[str, None] = {}
    entered: set[str] = set()

    def visit(symbol: str) -> None:
        if symbol in declared and symbol not in entered:
            entered.add(symbol)
            for cls in declared[symbol].classes[1:]:
                visit(cls.symbol)
            ordered[symbol] = None

    for symbol in declared:
        visit(symbol)
    return list(ordered)
