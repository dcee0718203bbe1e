"""Which classes need a new revision: what `treaty check` asks for, and `treaty lock` writes."""

from collections.abc import Callable, Iterable, Mapping

from attrs import define, field, frozen

from treaty.generator._modules import Module
from treaty.schema import Schema
from treaty.schema.evolution.changes import changes
from treaty.schema.evolution.history import History
from treaty.schema.evolution.lock import Line, Lock, Released
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
    count = _Count(
        {symbol: one for module in modules if module.name in locks for symbol, one in module.declared.items()},
        {symbol: one for module in modules for symbol, one in module.steps.items()},
        {symbol: line for lock in locks.values() for symbol, line in lock.lines.items()},
        lambda symbol: locks[symbol.partition(":")[0]].history(symbol),
    )
    count.run()
    found: dict[str, Next] = {}
    for symbol in _children_first(count.declared):
        last, schema = count.line(symbol).last, count.declared[symbol]
        if count.numbers[symbol] > last:
            step = count.steps.get(symbol, {}).get(last)
            texts: tuple[str, ...] = ()
            if last:
                before = count.history(symbol)[last].schema
                texts = changes(before, schema) or (count.why(symbol) if step is None else "by a migration",)
            found[symbol] = Next(symbol, last + 1, schema, count.uses(symbol), texts, step)
    return found


@define
class _Count:
    """The numbers that classes have once all is locked."""

    declared: Mapping[str, Schema]
    steps: Mapping[str, Mapping[int, Step]]
    lines: Mapping[str, Line]
    history: Callable[[str], History]
    numbers: dict[str, int] = field(factory=dict)

    def run(self) -> None:
        for symbol, schema in self.declared.items():
            last, is_last = self.line(symbol).last, self.history(symbol).is_last(schema)
            self.numbers[symbol] = last + (not is_last or last in self.steps.get(symbol, {}))
        while behind := [symbol for symbol in self.numbers if self.later(symbol)]:
            self.numbers |= {symbol: self.numbers[symbol] + 1 for symbol in behind}

    def line(self, symbol: str) -> Line:
        return self.lines.get(symbol, Line(symbol))

    def uses(self, symbol: str) -> dict[str, int]:
        reached = dict.fromkeys(cls.symbol for cls in self.declared[symbol].classes)
        return {one: self.numbers[one] for one in reached if one in self.numbers and one != symbol}

    def later(self, symbol: str) -> list[str]:
        """Of a class that has no new revision so far: those that it reaches which are of another one now."""
        line = self.line(symbol)
        return self.others(symbol) if line.last and self.numbers[symbol] == line.last else []

    def others(self, symbol: str) -> list[str]:
        line = self.line(symbol)
        then = line[line.last].uses
        found = []
        for one, number in self.uses(symbol).items():
            names = [name for name in (one, *self.line(one).former) if name in then]
            if names and then[names[0]] != number:
                found.append(one)
        return found

    def why(self, symbol: str) -> str:
        return f"through {', '.join(one.partition(':')[2] for one in self.others(symbol))}"


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
