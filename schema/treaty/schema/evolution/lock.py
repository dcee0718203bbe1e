"""The lock: every declaration that was released, in the order of release, as a log that is only ever added to.

A revision says what is new since the entries before it (`declares`): the classes that it reaches are those declared last, up to
and with it. Each is chained to the one before it of its class, by digest, and each entry says what log it follows, so that an
edit of history is found wherever something comes after it. `lock_json.py` reads and writes the file.
"""

import builtins
import functools
import re
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import Any, TypeAlias

import attrs
from attrs import frozen

from treaty.schema import ir
from treaty.schema._errors import SchemaError
from treaty.schema.evolution.history import History, Revision
from treaty.schema.evolution.migrations import Moves, Step
from treaty.schema.ir_json import class_from_data, class_to_data, digest_of

Declared: TypeAlias = Mapping[str, Any]  # a class as JSON data, without its id


@frozen
class Released:
    """A migration as it was when the revision that it leads to was locked."""

    kind: str  # "moves" or "function"
    digest: str

    @classmethod
    def of(cls, step: Step) -> "Released":
        return cls("moves" if isinstance(step, Moves) else "function", step.digest)


@frozen
class Revised:
    """A class has a new revision. `root` is its id in `declares`: that of a generic class has its variables, `m:Adam[~0]`.

    `uses` are the revisions that the classes which it reaches were of then, by symbol, as far as they were locked.
    """

    symbol: str
    number: int
    root: str
    declares: Mapping[str, Declared]
    digest: str
    chain: str
    uses: Mapping[str, int] = attrs.field(factory=dict)
    changes: tuple[str, ...] = ()
    migration: Released | None = None  # from the revision before
    message: str = ""
    follows: str = ""  # a digest of the log before; an entry that was written before there were such has none


@frozen
class Moved:
    """Classes go by other names from here on, all at once: two may swap theirs. They may be classes of other modules, or functions."""

    names: Mapping[str, str]
    message: str = ""
    follows: str = ""


@frozen
class Orphaned:
    """A revision, or a whole class that is gone (`number` is None), that nobody will restore any more."""

    symbol: str
    number: int | None
    why: str
    follows: str = ""


@frozen
class Waived:
    """Findings of `treaty check` that are meant so, and no other that comes later: each as its field and what it says.

    Without `findings`, as it was written once, it is every finding of a rule that a revision breaks.
    """

    rule: str
    symbol: str
    number: int
    why: str
    findings: tuple[str, ...] = ()
    follows: str = ""


Entry: TypeAlias = Revised | Moved | Orphaned | Waived


@frozen
class Line:
    """The life of one class: the names that it had, and its revisions, with their places in the log."""

    symbol: str
    former: tuple[str, ...] = ()
    revisions: tuple[tuple[int, Revised], ...] = ()
    orphaned: Mapping[int, str] = attrs.field(factory=dict)  # revision -> why
    waived: tuple[Waived, ...] = ()

    @property
    def last(self) -> int:
        return len(self.revisions)

    def __getitem__(self, number: int) -> Revised:
        return self.revisions[number - 1][1]


@frozen(slots=False)
class Lock:
    """The log of one module. `name` is its file, for messages."""

    module: str
    log: tuple[Entry, ...] = ()
    name: str = attrs.field(default="the lock", eq=False)

    @classmethod
    def parse(cls, text: str, name: str = "the lock") -> "Lock":
        """The lock in a text, checked: that it is whole, and that nobody edited what it says. `name` is the file."""
        from treaty.schema.evolution import lock_json  # here, since it is made of the classes above

        return lock_json.parse(text, name)

    def to_text(self) -> str:
        """The file. What was there before stays as it was, byte for byte: new entries come at the end."""
        from treaty.schema.evolution import lock_json

        return lock_json.to_text(self)

    @cached_property
    def lines(self) -> Mapping[str, Line]:
        """The classes of the module by their present symbols, without those that are gone or moved away.

        Raises SchemaError where the log does not fit together.
        """
        return {symbol: line for symbol, line in self._followed.items() if symbol.partition(":")[0] == self.module}

    def history(self, name: str, steps: Mapping[int, Step] | None = None) -> History:
        """The history of a class, by symbol or by its name in the module; that of a class that is not locked is empty."""
        symbol = name if ":" in name else f"{self.module}:{name}"
        line = self.lines.get(symbol, Line(symbol))
        if symbol not in self._revisions:
            self._revisions[symbol] = tuple(
                Revision(entry.number, entry.digest, partial(self.schema, place, entry), self._uses(place, entry))
                for place, entry in line.revisions
            )
        return History(symbol, self._revisions[symbol], dict(steps or {}), line.former, self._renamed(-1))

    @cached_property
    def _revisions(self) -> dict[str, tuple[Revision, ...]]:
        """Those that someone asked for: their schemas are made once."""
        return {}

    def schema(self, place: int, entry: Revised) -> ir.Schema:
        """What a revision, at a place in the log, declared: its class and all that it reached then, by present names."""
        renamed = self._renamed(place)
        reached: dict[str, ir.Class] = {}
        pending = [entry.root]
        while pending:
            id = pending.pop()
            if id not in reached:
                found = self._class(id, place, entry)
                symbol = renamed.get(found.symbol, found.symbol)
                reached[id] = found if symbol == found.symbol else attrs.evolve(found, symbol=symbol)
                pending += [node.cls for field in reached[id].fields for node in ir.nodes(field.type)]
        made = ir.Schema(entry.root, tuple(reached.values())).at(entry.root)
        if made.digest != entry.digest:
            raise self.rewritten(entry, "its declaration is not the one that its digest was made of")
        return made

    def add(
        self,
        symbol: str,
        schema: ir.Schema,
        *,
        uses: Mapping[str, int] | None = None,
        changes: tuple[str, ...] = (),
        migration: Released | None = None,
        message: str = "",
    ) -> "Lock":
        """With the next revision of a class. `schema` is without type arguments, as `SchemaReader.generic` reads it.

        Aliases, casts and reserved keys are kept, though no digest has them: a migration from this revision on needs the
        revisions before it brought here.
        """
        declares = {cls.id: _declared(cls) for cls in schema.classes if not cls.id.startswith(ir.VARIABLE)}
        declares = {id: data for id, data in declares.items() if self._at(id, len(self.log)) != data}
        line = self._followed.get(symbol, Line(symbol))
        entry = Revised(
            symbol, line.last + 1, schema.root, declares, schema.digest, "", uses or {}, changes, migration, message
        )
        return self.with_entry(attrs.evolve(entry, chain=_chain(line, entry)))

    def with_entry(self, entry: Entry) -> "Lock":
        """With one entry more; SchemaError where it does not fit what is there."""
        entry = attrs.evolve(entry, follows=self._link)
        followed = dict(self._followed)
        self._follow(followed, len(self.log), entry)
        added = attrs.evolve(self, log=(*self.log, entry))
        # Else each of many would follow the log from the start.
        vars(added).update(_followed=followed, _link=_linked(self._link, entry))
        return added

    @property
    def symbols(self) -> set[str]:
        """What the classes and functions that it speaks of are called now, those of other modules among them."""
        found = set(self.lines)
        for place, entry in enumerate(self.log):
            if isinstance(entry, Revised):
                renamed = self._renamed(place)
                for id in entry.declares:
                    spoken = ir.symbols(self._class(id, place, entry))
                    found |= {renamed.get(symbol, symbol) for symbol in spoken if not symbol.startswith(ir.VARIABLE)}
        return found

    @property
    def needed(self) -> Iterator[tuple[str, int]]:
        """The revisions that somebody may restore, and those of the classes that they reach, by present symbols."""
        for symbol, line in self.lines.items():
            for place, entry in line.revisions:
                if entry.number not in line.orphaned:
                    yield symbol, entry.number
                    yield from self._uses(place, entry).items()

    def rewritten(self, entry: Revised, how: str) -> SchemaError:
        return SchemaError(
            f"{self.name}: {entry.symbol} revision {entry.number}: {how}; history is only added to: "
            f"restore the file (git checkout -- {self.name}) and run treaty lock"
        )

    @cached_property
    def _followed(self) -> dict[str, Line]:
        found: dict[str, Line] = {}
        link, must_follow = "", False
        for place, entry in enumerate(self.log):
            self._follow(found, place, entry)
            must_follow = must_follow or bool(entry.follows)
            if must_follow and entry.follows != link:
                raise SchemaError(
                    f"{self.name}: log[{place}]: it does not follow the entries that it was written after, as when two branches "
                    f"lock and both are kept, or history is edited; {SETTLE.format(file=self.name)}"
                )
            link = _linked(link, entry)
        return found

    @cached_property
    def _link(self) -> str:
        """What an entry follows that comes next."""
        return functools.reduce(_linked, self.log, "")

    def _follow(self, lines: dict[str, Line], place: int, entry: Entry) -> None:
        """One entry of the log, on top of those before it."""
        if isinstance(entry, Revised):
            line = lines.get(entry.symbol, Line(entry.symbol))
            self._check_next(line, entry)
            lines[entry.symbol] = attrs.evolve(line, revisions=(*line.revisions, (place, entry)))
        elif isinstance(entry, Moved):
            moved = [(new, lines.pop(old)) for old, new in entry.names.items() if old in lines]
            for new, line in moved:
                if new in lines:
                    raise SchemaError(f"{self.name}: {line.symbol} moved to {new}, which another class is called")
                lines[new] = attrs.evolve(line, symbol=new, former=(*line.former, line.symbol))
            for symbol, line in lines.items():
                if line.waived:
                    lines[symbol] = attrs.evolve(
                        line, waived=tuple(_renamed_in(one, entry.names) for one in line.waived)
                    )
        elif isinstance(entry, Waived):
            line = self._line(lines, entry.symbol)
            lines[entry.symbol] = attrs.evolve(line, waived=(*line.waived, entry))
        elif entry.number is None:
            self._line(lines, entry.symbol)
            del lines[entry.symbol]
        else:
            line = self._line(lines, entry.symbol, entry.number)
            lines[entry.symbol] = attrs.evolve(line, orphaned={**line.orphaned, entry.number: entry.why})

    def _line(self, lines: Mapping[str, Line], symbol: str, number: int = 1) -> Line:
        if symbol not in lines or not 1 <= number <= lines[symbol].last:
            known = f"has the revisions 1 to {lines[symbol].last}" if symbol in lines else "is not locked here"
            raise SchemaError(f"{self.name}: expected a revision that was locked, got {symbol} {number}, which {known}")
        return lines[symbol]

    def _check_next(self, line: Line, entry: Revised) -> None:
        if 1 <= entry.number <= line.last:
            raise SchemaError(
                f"{self.name}: {entry.symbol} has two revisions {entry.number}, as when two branches lock and both are kept; {SETTLE.format(file=self.name)}"
            )
        if entry.number != line.last + 1:
            raise self.rewritten(entry, f"revision {line.last + 1} is missing before it")
        if entry.chain != _chain(line, entry):
            raise self.rewritten(entry, "the entry was edited, or one before it")

    def _renamed(self, place: int) -> dict[str, str]:
        """What the classes of a place in the log are called now."""
        found: dict[str, str] = {}
        for at, names in self._moves:
            if at > place:
                found = {**names, **{old: names.get(now, now) for old, now in found.items()}}
        return found

    @cached_property
    def _moves(self) -> list[tuple[int, Mapping[str, str]]]:
        return [(place, entry.names) for place, entry in enumerate(self.log) if isinstance(entry, Moved)]

    def _uses(self, place: int, entry: Revised) -> dict[str, int]:
        """The revisions of the classes that a revision reached, by present symbols."""
        renamed = self._renamed(place) if entry.uses else {}
        return {renamed.get(symbol, symbol): number for symbol, number in entry.uses.items()}

    def _class(self, id: str, place: int, entry: Revised) -> ir.Class:
        if id.startswith(ir.VARIABLE) and id[1:].isdigit():
            return ir.variable(int(id[1:]))
        data = self._at(id, place + 1)
        if data is None:
            raise self.rewritten(entry, f"it reaches {id}, which is nowhere declared")
        known = self._classes.get(builtins.id(data))
        if known is not None:
            return known
        try:
            return self._classes.setdefault(builtins.id(data), class_from_data({"id": id, **data}))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self.rewritten(entry, f"{id} is not a class in JSON form: {error}") from error

    @cached_property
    def _classes(self) -> dict[int, ir.Class]:
        """By the declaration that they were made of, which the log keeps: revisions share most of them."""
        return {}

    def _at(self, id: str, end: int) -> Declared | None:
        """The declaration of a class as of a place in the log."""
        return next((data for place, data in reversed(self._declared.get(id, ())) if place < end), None)

    @cached_property
    def _declared(self) -> Mapping[str, list[tuple[int, Declared]]]:
        found: dict[str, list[tuple[int, Declared]]] = {}
        for place, entry in enumerate(self.log):
            if isinstance(entry, Revised):
                for id, data in entry.declares.items():
                    found.setdefault(id, []).append((place, data))
        return found


SETTLE = (
    "keep the side that was released: git checkout --ours {file} (or --theirs), then run treaty lock, "
    "and count a migration of the other side up to the revision that it begins at now"
)


def _chain(line: Line, entry: Revised) -> str:
    """What stands for an entry and all of its class before it. The name of the class is no part of it, nor are words."""
    before = line[line.last].chain if line.last else ""
    step = None if entry.migration is None else [entry.migration.kind, entry.migration.digest]
    return digest_of([before, entry.digest, step, entry.declares, entry.uses])


def _linked(link: str, entry: Entry) -> str:
    """What stands for a log and one entry more. Messages are no part of it, and reasons are."""
    if isinstance(entry, Revised):
        said: list[Any] = [entry.symbol, entry.number, entry.root, entry.chain]
    elif isinstance(entry, Moved):
        said = [entry.names]
    elif isinstance(entry, Orphaned):
        said = [entry.symbol, entry.number, entry.why]
    else:
        said = [entry.rule, entry.symbol, entry.number, entry.why, entry.findings]
    return digest_of([link, type(entry).__name__, said])


def _renamed_in(waived: Waived, names: Mapping[str, str]) -> Waived:
    """A waiver with the names that classes have from here on, in what its findings say, too."""
    words = {old.partition(":")[2]: new.partition(":")[2] for old, new in names.items()} | dict(names)
    longest_first = sorted(map(re.escape, words), key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w.:])(?:{'|'.join(longest_first)})(?!\w)")
    return attrs.evolve(
        waived,
        symbol=names.get(waived.symbol, waived.symbol),
        findings=tuple(pattern.sub(lambda found: words[found[0]], one) for one in waived.findings),
    )


def _declared(cls: ir.Class) -> dict[str, Any]:
    data = class_to_data(cls)
    del data["id"]
    return data
