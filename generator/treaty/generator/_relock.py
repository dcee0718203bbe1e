"""`treaty lock`, without its words: the locks of modules with all that is new appended, or why that must not be."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs
from attrs import define, field, frozen

from treaty.generator._findings import Finding, unwaived
from treaty.generator._gate import Gate
from treaty.generator._locks import lock_of, lock_path, stray_locks
from treaty.generator._modules import Module
from treaty.generator._moving import Ask, Moving
from treaty.generator._process import check_migrations
from treaty.generator._project import Project
from treaty.generator._revisions import Next, next_revisions
from treaty.schema import TreatyError
from treaty.schema._classes import relative
from treaty.schema.evolution.gate import Breach
from treaty.schema.evolution.lock import Line, Lock, Orphaned, Waived
from treaty.schema.evolution.migrations import Function
from treaty.schema.evolution.resolution import show


@frozen
class LockOptions:
    """What the user says of the past. Classes are `module:Class`, or `Class` where one module has it."""

    message: str = ""
    moved: Mapping[str, str] = field(factory=dict)  # a class, or a module, by what it was called
    orphaned: tuple[tuple[str, int | None], ...] = ()  # None: all of it
    waived: tuple[tuple[str, str, int], ...] = ()  # rule, class, revision
    why: str = ""


@define
class Relock:
    """The locks of modules while they change. `said` is what to print, a line for each class."""

    modules: list[Module]
    project: Project
    options: LockOptions
    ask: Ask | None = None
    locks: dict[str, Lock] = field(factory=dict)  # by module
    said: list[str] = field(factory=list)

    def run(self) -> dict[Path, str | None]:
        """The files that change, with their text; None is to delete. Raises TreatyError where an earlier checkpoint would be
        lost, and nobody said so."""
        paths = {module.name: lock_path(module, self.project) for module in self.modules}
        before = {module.name: lock_of(module, self.project) for module in self.modules}
        self.locks = {name: lock or Lock(name, name=relative(paths[name])) for name, lock in before.items()}
        files: dict[Path, str | None] = {}
        moving = self._moving(files)
        self._apply_options(moving)
        asked = next_revisions(self.modules, self.locks)
        gate = Gate(self.modules, self.locks)
        breaches = gate.breaches()
        found = [*check_migrations(self.modules, self.locks), *self._lost(map(gate.finding, breaches))]
        self._waive(found, moving)
        if wrong := [_shown(one) for one in unwaived(found, self.locks)]:
            raise TreatyError("\n".join(wrong))
        self._give_up_above(gate, breaches)
        for one in asked.values():
            self._add(one)
        changed = [name for name, lock in self.locks.items() if lock.log and lock != before[name]]
        return files | {paths[name]: self.locks[name].to_text() for name in changed}

    def _moving(self, files: dict[Path, str | None]) -> Moving:
        declared = {symbol: one for module in self.modules for symbol, one in module.declared.items()}
        strays = {}
        for path, lock in stray_locks(self.modules, self.project):
            files[path] = None
            if lock.module in self.locks and not self.locks[lock.module].log:
                self.locks[lock.module] = lock  # the module says another `__treaty__`
            else:
                strays[path] = lock
        return Moving(declared, self.locks, strays, self.options.message)

    def _apply_options(self, moving: Moving) -> None:
        """What is moved and given up: names first, since the others go by the new ones."""
        vanished = moving.vanished()
        gone = [name for name, number in self.options.orphaned if number is None and moving.symbol(name) in vanished]
        self.said += moving.settle(self.options.moved, gone, self.options.why, self.ask)
        for name, number in self.options.orphaned:
            if name not in gone:
                symbol = moving.symbol(name)
                last = self._line(symbol).last
                for one in range(1, last + 1) if number is None else (number,):
                    self._give_up(symbol, one, self.options.why)

    def _lost(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """What an earlier revision lacks to become the present declaration, unless it is given up."""
        for finding in findings:
            given_up = self._line(finding.symbol).orphaned
            if numbers := tuple(number for number in finding.revisions if number not in given_up):
                yield attrs.evolve(finding, revisions=numbers)

    def _waive(self, found: list[Finding], moving: Moving) -> None:
        """Those findings that the options mean, as they are: of one that comes later, somebody has to say so again."""
        for rule, name, number in self.options.waived:
            symbol = moving.symbol(name)
            told = [one for one in unwaived(found, self.locks) if one.is_of(rule, symbol, number)]
            if not told or number > self._line(symbol).last:
                raise TreatyError(
                    f"--waive {rule}:{name}:{number}: expected a finding that is not waived yet, got none; "
                    f"treaty check lists them, with the revisions that they are of"
                )
            self._enter(symbol, Waived(rule, symbol, number, self.options.why, tuple(one.waived_as for one in told)))
            self.said.append(f"{_name(symbol)}: {rule} of revision {number} is waived: {self.options.why}")

    def _give_up_above(self, gate: Gate, told: list[Breach]) -> None:
        """A class that reaches one that is given up is given up with it: the gate tells of it once nothing below is told."""
        known = {(one.name, one.symbol, one.path) for one in told}
        while more := [one for one in self._remaining(gate) if (one.name, one.symbol, one.path) not in known]:
            for one in more:
                known.add((one.name, one.symbol, one.path))
                for number in one.revisions:
                    self._give_up(one.symbol, number, f"with what it reaches at {show(one.path)}")

    def _remaining(self, gate: Gate) -> list[Breach]:
        orphaned = {symbol: line.orphaned for lock in self.locks.values() for symbol, line in lock.lines.items()}
        return gate.breaches(orphaned) if any(orphaned.values()) else []

    def _add(self, one: Next) -> None:
        if isinstance(one.step, Function) and not one.step.has_source:
            raise TreatyError(
                f"migration({_name(one.symbol)}, {one.number - 1}): expected a function whose source can be read, so that "
                f"a later edit is found, got {one.step.where}; write it with def, in a file"
            )
        name = one.symbol.partition(":")[0]
        self.locks[name] = self.locks[name].add(
            one.symbol,
            one.schema,
            uses=one.uses,
            changes=one.changes,
            migration=one.migration,
            message=self.options.message,
        )
        changes = f" ({'; '.join(one.changes)})" if one.changes else ""
        self.said.append(f"{_name(one.symbol)}: revision {one.number}{changes}")

    def _line(self, symbol: str) -> Line:
        lock = self.locks[symbol.partition(":")[0]]
        return lock.lines.get(symbol, Line(symbol))

    def _give_up(self, symbol: str, number: int, why: str) -> None:
        if number not in self._line(symbol).orphaned:
            self._enter(symbol, Orphaned(symbol, number, why))
            self.said.append(f"{_name(symbol)}: revision {number} is orphaned: {why}")

    def _enter(self, symbol: str, entry: Orphaned | Waived) -> None:
        name = symbol.partition(":")[0]
        self.locks[name] = self.locks[name].with_entry(entry)


def _shown(finding: Finding) -> str:
    """A finding, and what gives up the revisions that break."""
    if finding.rule == "PROCESS":
        return str(finding)
    orphans = " ".join(f"--orphan {finding.cls}:{number}" for number in finding.revisions)
    return f"{finding}; to give up what breaks: {orphans} --why '...'"


def _name(symbol: str) -> str:
    return symbol.partition(":")[2]
