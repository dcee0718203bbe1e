"""What became of classes that are locked and not declared any more: renamed, moved to another module, or gone."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import attrs
from attrs import define, field

from treaty.schema import Schema, TreatyError, ir
from treaty.schema.evolution.lock import Line, Lock, Moved, Orphaned

Ask = Callable[[str, list[str]], str]  # of a class, and what it may be called now: its name, or "" if it is gone


@define
class Moving:
    """The locks by module, and those of modules that are not there any more (`strays`, by file), while names change."""

    declared: Mapping[str, Schema]
    locks: dict[str, Lock]
    strays: dict[Path, Lock]
    message: str
    _moves: dict[str, str] = field(factory=dict)
    _gone: dict[str, str] = field(factory=dict)  # symbol -> why

    def settle(self, moved: Mapping[str, str], gone: Iterable[str], why: str, ask: Ask | None) -> list[str]:
        """Give every class that vanished its new name, as is said or answered; what was done, in words."""
        self._moves = self._said(moved)
        self._gone = {self.symbol(name): why for name in gone}
        unknown = [symbol for symbol in self.vanished() if symbol not in {*self._moves, *self._gone}]
        if unknown and ask is None:
            renamed = self._renamed_modules(unknown)
            rest = [symbol for symbol in unknown if _module(symbol) not in renamed]
            raise TreatyError("\n".join([*renamed.values(), *map(self._what_to_write, rest)]))
        for symbol in unknown:
            assert ask is not None
            if answer := ask(symbol, self.candidates(symbol)):
                self._moves |= self._said({symbol: answer})
            else:
                self._gone[symbol] = why or "gone"
        for path in list(self.strays):
            self._settle_stray(path)
        for name in list(self.locks):
            self._take_home(name)
        for name, lock in self.locks.items():
            names = {old: new for old, new in self._moves.items() if old in lock.symbols}
            self.locks[name] = self._without_gone(lock, names)
        done = [f"{old} is {new} now" for old, new in self._moves.items()]
        return [*done, *(f"{symbol} is gone: {why}" for symbol, why in self._gone.items())]

    def vanished(self) -> list[str]:
        locked = [symbol for lock in self._every_lock() for symbol in lock.lines]
        return [symbol for symbol in dict.fromkeys(locked) if symbol not in self.declared]

    def candidates(self, symbol: str) -> list[str]:
        """The classes that are new, the likeliest first: those with the same fields, then those with most of them."""
        before = self._line(symbol)
        keys = _keys(before[0].schema(*before[1].revisions[-1]))
        taken = {one for lock in self.locks.values() for one in lock.lines} | {*self._moves.values()}
        likely = {
            new: difflib.SequenceMatcher(None, keys, _keys(schema)).ratio() + (_name(new) == _name(symbol))
            for new, schema in self.declared.items()
            if new not in taken
        }
        return sorted((new for new, how in likely.items() if how >= 0.5), key=lambda new: -likely[new])

    def symbol(self, name: str) -> str:
        """`Linear` as `my.state:Linear`: of a class that is declared or locked."""
        known = dict.fromkeys([*self.declared, *self.vanished()])
        found = [name] if name in known else [symbol for symbol in known if _name(symbol) == name]
        if len(found) != 1:
            raise TreatyError(f"expected a class, as module:Class, got {name!r}; known: {', '.join(found or known)}")
        return found[0]

    def _said(self, moved: Mapping[str, str]) -> dict[str, str]:
        """What `--moved` says, class by class: a module stands for all of it that locks speak of and that the other one has."""
        moves: dict[str, str] = {}
        then = {symbol for lock in self._every_lock() for symbol in lock.symbols}
        now = {symbol for schema in self.declared.values() for cls in schema.classes for symbol in ir.symbols(cls)}
        ours = {*self.declared, *(symbol for lock in self._every_lock() for symbol in lock.lines)}
        for old, new in moved.items():
            within = sorted(symbol for symbol in then if _module(symbol) == old)
            if within and ":" not in new:
                names = {symbol: f"{new}:{_name(symbol)}" for symbol in within}
                moves |= {symbol: name for symbol, name in names.items() if name in now}
            elif old in then - ours and new in now - ours:
                moves[old] = new
            else:
                moves[self.symbol(old)] = self.symbol(new)
        for old, new in moves.items():
            if old in ours and new not in self.declared:
                raise TreatyError(f"--moved {old}={new}: expected a class that is declared, got {new}, which is not")
            if new not in moves and any(new in lock.lines for lock in self.locks.values()):
                raise TreatyError(f"--moved {old}={new}: {new} has revisions of its own; a class has one history")
        return moves

    def _every_lock(self) -> list[Lock]:
        return [*self.locks.values(), *self.strays.values()]

    def _line(self, symbol: str) -> tuple[Lock, Line]:
        return next((lock, lock.lines[symbol]) for lock in self._every_lock() if symbol in lock.lines)

    def _take_home(self, name: str) -> None:
        """Give the classes of a lock that are in other modules now to the locks of these."""
        lock = self.locks[name]
        for old, new in self._moves.items():
            if old in lock.lines and (home := _module(new)) != name:
                self.locks[home] = transplanted(lock, old, new, self.locks[home], self.message)

    def _settle_stray(self, path: Path) -> None:
        """The lock of a module that is gone: it becomes that of the module where all of its classes are, or is divided."""
        lock = self.strays[path]
        names = {old: new for old, new in self._moves.items() if old in lock.lines}
        homes = {_module(new) for new in names.values()}
        if len(homes) == 1 and not self.locks[home := homes.pop()].log:
            moved = self._without_gone(lock, {old: new for old, new in self._moves.items() if old in lock.symbols})
            self.locks[home] = attrs.evolve(moved, module=home, name=self.locks[home].name)
        else:
            for old, new in names.items():
                self.locks[_module(new)] = transplanted(lock, old, new, self.locks[_module(new)], self.message)

    def _without_gone(self, lock: Lock, names: Mapping[str, str]) -> Lock:
        for symbol in [symbol for symbol in self._gone if symbol in lock.lines]:
            lock = lock.with_entry(Orphaned(symbol, None, self._gone[symbol]))
        return lock.with_entry(Moved(dict(names), self.message)) if names else lock

    def _renamed_modules(self, unknown: Iterable[str]) -> dict[str, str]:
        """Of modules that are gone, each with all of its classes in one other: what to write."""
        found: dict[str, str] = {}
        for lock in self.strays.values():
            homes = {
                _module(new) for symbol in lock.lines for new in self.candidates(symbol) if _name(new) == _name(symbol)
            }
            for home in sorted(homes):
                if all(f"{home}:{_name(symbol)}" in self.declared for symbol in lock.lines):
                    found[lock.module] = (
                        f"{lock.module} is locked, and not there any more; if it has another name now, write "
                        f"--moved {lock.module}={home}; for classes one by one, --moved or --orphan each"
                    )
        return {module: text for module, text in found.items() if any(_module(one) == module for one in unknown)}

    def _what_to_write(self, symbol: str) -> str:
        likely = self.candidates(symbol)[:3]
        new = likely[0] if likely else f"{_module(symbol)}:NewName"
        more = f" (or {', '.join(likely[1:])})" if likely[1:] else ""
        return (
            f"{symbol} is locked, and not declared any more; if it has another name now, write "
            f"--moved {symbol}={new}{more}; if nobody will restore it, --orphan {symbol}:all --why '...'"
        )


def transplanted(source: Lock, old: str, new: str, target: Lock, message: str) -> Lock:
    """The history of a class as part of another lock, under all the names that it had."""
    line = source.lines[old]
    names = [*line.former, old, new]
    first = names[0]
    for place, entry in line.revisions:
        target = target.add(
            first,
            source.schema(place, entry),
            uses=entry.uses,
            changes=entry.changes,
            migration=entry.migration,
            message=entry.message,
        )
    for number, why in line.orphaned.items():
        target = target.with_entry(Orphaned(first, number, why))
    for waived in line.waived:
        target = target.with_entry(attrs.evolve(waived, symbol=first))
    for name in names[1:]:
        target = target.with_entry(Moved({first: name}, message if name == new else ""))
        first = name
    return target


def _keys(schema: Schema) -> list[str]:
    return sorted(f"{one.key} {type(one.type).__name__}" for one in schema.root_class.fields)


def _name(symbol: str) -> str:
    return symbol.partition(":")[2]


def _module(symbol: str) -> str:
    return symbol.partition(":")[0]
