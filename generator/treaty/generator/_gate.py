"""SILENT and LOAD: every revision that was locked, resolved to the present declarations. `treaty check` and `treaty lock` ask it."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import attrs
from attrs import frozen

from treaty.generator._findings import Finding, unwaived
from treaty.generator._modules import Module, every_lock
from treaty.schema import Schema
from treaty.schema._classes import relative
from treaty.schema.evolution.gate import Breach, breaches
from treaty.schema.evolution.history import History
from treaty.schema.evolution.lock import Lock
from treaty.schema.evolution.migrations import Step
from treaty.schema.evolution.resolution import Path, show


@frozen(slots=False)
class Gate:
    """The classes of modules as they are declared, and as their locks, by module, have them."""

    modules: Sequence[Module]
    locks: Mapping[str, Lock]
    _histories: dict[str, History | None] = attrs.field(factory=dict, init=False)

    @cached_property
    def declared(self) -> Mapping[str, Schema]:
        return {symbol: schema for module in self.modules for symbol, schema in module.declared.items()}

    @cached_property
    def _steps(self) -> Mapping[str, Mapping[int, Step]]:
        return {symbol: steps for module in self.modules for symbol, steps in module.steps.items()}

    @cached_property
    def _every_lock(self) -> Mapping[str, Lock]:
        return every_lock(self.modules, self.locks)

    def history(self, symbol: str) -> History | None:
        """Made once: the schemas of revisions are kept in it."""
        if symbol not in self._histories:
            lock = self._every_lock.get(symbol.partition(":")[0])
            self._histories[symbol] = None if lock is None else lock.history(symbol, self._steps.get(symbol))
        return self._histories[symbol]

    def findings(self) -> list[Finding]:
        """What breaks, where nobody gave it up or says that it is meant."""
        orphaned = {symbol: line.orphaned for lock in self.locks.values() for symbol, line in lock.lines.items()}
        return list(unwaived(map(self.finding, self.breaches(orphaned)), self.locks))

    def breaches(self, orphaned: Mapping[str, Iterable[int]] | None = None) -> list[Breach]:
        return breaches(self.declared, self.history, orphaned)

    def finding(self, breach: Breach, source: str = "") -> Finding:
        """`source` is what has the revisions, if not the lock."""
        module = next(one for one in self.modules if breach.symbol in one.declared)
        line = module.line(breach.symbol, self.attribute(breach.symbol, breach.path))
        return Finding(
            breach.rule,
            breach.kind,
            relative(module.file),
            breach.message,
            breach.hint,
            line,
            breach.symbol,
            show(breach.path).removeprefix("$").removeprefix("."),
            breach.revisions,
            source=source,
        )

    def attribute(self, symbol: str, path: Path) -> str:
        """The attribute of a class that a path begins with; "" if none does, as where it was removed."""
        fields = self.declared[symbol].root_class.fields
        return next((one.name for one in fields if path and one.key == path[0]), "")
