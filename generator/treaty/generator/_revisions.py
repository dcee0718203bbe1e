"""Which classes need a new revision: what `treaty check` asks for, and `treaty lock` writes."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from attrs import define, field, frozen

from treaty.generator._modules import Module, every_lock
from treaty.schema import Schema
from treaty.schema.evolution.changes import changes
from treaty.schema.evolution.history import History
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
    modules = list(modules)
    steps = {symbol: one for module in modules for symbol, one in module.steps.items()}
    known = every_lock(modules, locks)

    @cache
    def history(symbol: str) -> History:
        lock = known.get(symbol.partition(":")[0])
        return History(symbol) if lock is None else lock.history(symbol, steps.get(symbol))

    declared = {symbol: one for module in modules if module.name in locks for symbol, one in module.declared.items()}
    count = _Count(declared, history)
    count.run()
    found: dict[str, Next] = {}
    for symbol in _children_first(declared):
        before, schema = history(symbol), declared[symbol]
        if count.numbers[symbol] > before.last:
            step = before.steps.get(before.last)
            texts: tuple[str, ...] = ()
            if before.last:
                why = count.why(symbol) if step is None else "by a migration"
                texts = changes(before[before.last].schema, schema) or (why,)
            found[symbol] = Next(symbol, before.last + 1, schema, count.uses(symbol), texts, step)
    return found


@define
class _Count:
    """The numbers that classes have once all is locked."""

    declared: Mapping[str, Schema]
    history: Callable[[str], History]
    numbers: dict[str, int] = field(factory=dict)

    def run(self) -> None:
        self.numbers |= {symbol: self.history(symbol).present(schema) for symbol, schema in self.declared.items()}
        while outdated := [symbol for symbol in self.numbers if self.is_outdated(symbol)]:
            self.numbers |= {symbol: self.numbers[symbol] + 1 for symbol in outdated}

    def uses(self, symbol: str) -> dict[str, int]:
        """The revisions of the classes that a class reaches, those that installed packages lock among them."""
        found: dict[str, int] = {}
        for cls in self.declared[symbol].classes[1:]:
            if cls.symbol in self.numbers:
                found[cls.symbol] = self.numbers[cls.symbol]
            elif (history := self.history(cls.symbol)).revisions:
                found[cls.symbol] = history.present(self.declared[symbol].at(cls.id))
        return {one: number for one, number in found.items() if one != symbol}

    def is_outdated(self, symbol: str) -> bool:
        """Whether a class that has no new revision so far reaches another that has one."""
        last = self.history(symbol).last
        return 0 < last == self.numbers[symbol] and bool(self.changed_below(symbol))

    def changed_below(self, symbol: str) -> list[str]:
        """The classes that a class reaches which are of another revision than they were in its last one."""
        history = self.history(symbol)
        then = history[history.last].uses
        return [one for one, number in self.uses(symbol).items() if then.get(one, number) != number]

    def why(self, symbol: str) -> str:
        return f"through {', '.join(one.partition(':')[2] for one in self.changed_below(symbol))}"


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
