"""`resolve`: from the schema that a checkpoint was written with to the one that it is read by.

A pure function of two schemas and the histories of their classes. The gate in CI, every restore and `treaty plan` ask it,
so that they cannot disagree. Classes are paired as they stand in the tree. Where the reader's class has migrations from
the writer's revision on, they are applied in turn; else fields are paired by key, then by alias, and what is new is filled in.
"""

import builtins
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeVar

from attrs import define, evolve, field, frozen

from treaty.schema import ir
from treaty.schema._default_texts import is_same, renamed
from treaty.schema.dims import Expr, Name, substituted
from treaty.schema.evolution.history import Histories, History, OtherArgumentsError, no_history
from treaty.schema.evolution.migrations import Function
from treaty.schema.evolution.moves import Unfitting, moved
from treaty.schema.evolution.resolution import (
    ConvertLeaf,
    Drop,
    EachItem,
    Fill,
    From,
    Keep,
    Make,
    Path,
    Plan,
    Problem,
    Resolution,
    Same,
    Through,
    Unless,
)
from treaty.schema.evolution.sizes import SizePair, Sizes, writer_sizes
from treaty.schema.evolution.types import Outcome, TypeWalk, folded

_D = TypeVar("_D", int, None)

_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})
_NO_CASTS: Final[Mapping[str, str]] = MappingProxyType({})


def resolve(
    writer: ir.Schema,
    reader: ir.Schema,
    migrations: Histories = no_history,
    *,
    revisions: Mapping[str, int] = _NOTHING,
    cast: Mapping[str, str] = _NO_CASTS,
) -> Resolution:
    """What becomes of each leaf of the reader and of the writer, or all that stands in the way.

    `migrations` gives the history of a class by its symbol. `revisions` are those that the checkpoint says its classes are
    of, by symbol; without them, a class is known by its digest. `cast` are dtypes that the caller wants converted.
    """
    return Resolver(migrations, cast=cast).resolve(writer, reader, revisions)


@frozen
class _ClassSide:
    """A class with all that it reaches: as the checkpoint has it, as a revision had it, or as the code declares it today."""

    schema: ir.Schema
    time: Literal["stored", "past", "present"]
    uses: tuple[tuple[str, int], ...] = ()  # of the past: the revisions that the classes which it reaches were of

    @property
    def cls(self) -> ir.Class:
        return self.schema.root_class

    @property
    def present(self) -> bool:
        return self.time == "present"


@define
class Resolver:
    """What was found of two classes is kept: whoever has many pairs, which share classes, asks one of these for all."""

    histories: Histories
    cast: Mapping[str, str] = _NO_CASTS
    revisions: Mapping[str, int] = _NOTHING
    known: dict[tuple[object, ...], Outcome] = field(factory=dict)
    renamed: dict[str, str] = field(factory=dict)  # what histories say of classes of other packages
    declared: dict[str, ir.Class] = field(factory=dict)  # the present classes, by symbol
    _below: dict[tuple[int, str], ir.Schema] = field(factory=dict)
    _schemas: dict[tuple[int, ...], ir.Schema] = field(factory=dict)  # by the identities of their classes
    _kept: list[ir.Schema] = field(factory=list)  # for `_below`, so that no id of one is used again
    _entered_again: set[tuple[object, ...]] = field(factory=set)  # classes that were met inside themselves

    def resolve(self, writer: ir.Schema, reader: ir.Schema, revisions: Mapping[str, int] = _NOTHING) -> Resolution:
        if revisions != self.revisions:  # else a class would be taken for another revision than it was said to be
            self.known.clear()
        self.revisions = revisions
        self.declared |= {cls.symbol: cls for cls in reader.classes}
        found = self.classes(_ClassSide(self._one(writer), "stored"), _ClassSide(self._one(reader), "present"))
        return Resolution(
            writer, reader, found.plan, tuple(found.problems), tuple(found.conditions), found.revision, found.present
        )

    def below(self, side: _ClassSide, id: str) -> _ClassSide:
        """A class that a side reaches."""
        key = (builtins.id(side.schema), id)
        if key not in self._below:
            self._kept.append(side.schema)
            self._below[key] = self._one(side.schema.at(id))
        return evolve(side, schema=self._below[key])

    def _one(self, schema: ir.Schema) -> ir.Schema:
        """The same schema for the same classes: its digest is made once."""
        return self._schemas.setdefault(tuple(map(builtins.id, schema.classes)), schema)

    def between(self, history: History, first: int, then: int) -> Outcome:
        """What became of one revision in a later one, as it was then."""
        revisions = {history.symbol: first}
        if revisions != self.revisions:
            self.known.clear()
        self.revisions = revisions
        later = _ClassSide(self._one(history[then].schema), "past", tuple(history[then].uses.items()))
        return self.classes(_ClassSide(self._one(history[first].schema), "stored"), later)

    def classes(self, writer: _ClassSide, reader: _ClassSide) -> Outcome:
        """The way from one class to another, known or made."""
        key = (*self._known_by(writer), *self._known_by(reader))
        if key in self.known:
            self._entered_again.add(key)
            return self.known[key]
        inside = Same()
        self.known[key] = Outcome(plan=inside)
        found = self._classes(writer, reader)
        inside.plan = found.plan
        if key in self._entered_again and _is_kept(found.plan, set()):
            inside.plan = found.plan = Keep()
        self.known[key] = found
        return found

    def _known_by(self, side: _ClassSide) -> tuple[object, ...]:
        return side.cls.id, side.schema.digest, side.time, side.uses

    def _classes(self, writer: _ClassSide, reader: _ClassSide) -> Outcome:
        history = self.histories(reader.cls.symbol)
        if history is None or not history.revisions:
            return self._fields(writer, reader)
        self.renamed |= history.renamed
        present = history.present(reader.schema, self.histories)
        if not reader.present:  # of a type argument, that may be the present all the same, not locked yet
            present = _past_number(history, reader, history.last + 1)
        found = self._revision(history, writer, present)
        if isinstance(found, Problem):
            return Outcome(problems=[found])
        if writer.time == "stored" and found is not None and found <= history.last:
            # What a revision says of the classes it reached tells them apart where their digests do not.
            said = {symbol: number for symbol, number in history[found].uses.items() if self._tells(symbol, number)}
            self.revisions = {**said, **self.revisions}
        outcome = self._between(history, writer, found, reader, present)
        outcome.revision, outcome.present = found, present
        return outcome

    def _tells(self, symbol: str, number: int) -> bool:
        """Whether the number of a revision says more than its digest: migrations begin at numbers."""
        history = self.histories(symbol)
        return history is not None and bool(history.steps or number > history.last)

    def _revision(self, history: History, writer: _ClassSide, present: int) -> int | Problem | None:
        """Which revision the writer's class is of; None where the history does not know it."""
        if writer.present:
            return present
        if writer.time == "past":
            return _past_number(history, writer, None)
        numbers = history.numbers(writer.schema)
        name = history.symbol.rpartition(":")[2]
        said = next((self.revisions[one] for one in _symbols(history, writer) if one in self.revisions), None)
        if said is not None:
            if said <= history.last or said == present:
                return said
            return Problem(
                "LOAD",
                "newer",
                f"a revision of {name} that this code knows, up to {history.last}",
                f"revision {said}, of newer code",
                (),
                "update the code, or restore with a class that declares what the checkpoint has",
            )
        ways = {tuple(_steps(history, number, present)) for number in numbers}
        if len(ways) > 1:
            said_ = " or ".join(map(str, numbers))
            return Problem(
                "LOAD",
                "revision",
                f"to know the revision of {name}",
                f"what may be of {said_}",
                (),
                f"pass revision={numbers[-1]} (or the other)",
            )
        return numbers[-1] if numbers else None

    def _between(
        self, history: History, writer: _ClassSide, number: int | None, reader: _ClassSide, present: int
    ) -> Outcome:
        """Through the migrations that lie between two revisions, one after the other."""
        steps = [] if number is None else _steps(history, number, present)
        if not steps:
            return self._fields(writer, reader)
        start = steps[0]
        outcome = Outcome()
        try:
            begin = _past(history, start, writer, reader)
            begin = evolve(begin, schema=_instructed(begin.schema, reader.schema))
            end = reader if start + 1 == present else _past(history, start + 1, writer, reader)
        except OtherArgumentsError as error:
            expected, _, got = str(error).removeprefix("expected ").partition(", got ")
            outcome.problem("arguments", expected, got, (), "write a migration of the class that it is in")
            return outcome
        before = outcome.take(self._fields(writer, begin))
        after = outcome.take(self._between(history, end, start + 1, reader, present))
        step = history.steps[start]
        if isinstance(step, Function):
            outcome.plan = Through(before, step, start, history.symbol, end.schema, after)
            return outcome
        try:
            found = moved(begin.schema, end.schema, step)
        except Unfitting as error:
            where = f"in migration({history.symbol.rpartition(':')[2]}, {start})"
            outcome.problem("migration", error.expected, error.got, (), where)
            return outcome
        ends = _Frame.of(self, begin, end, outcome)
        ends.sizes.pairs += found.sizes
        moves = []
        for one in found.plain:
            ends.cast_from = one.cast_from
            moves.append(one.move(ends.type(one.taken, one.given, one.path)))
        others = evolve(begin, schema=found.taken), evolve(end, schema=found.given)
        # The sizes of what is moved and of what stays are those of one class.
        rest = outcome.take(_Frame.of(self, *others, Outcome(), ends.sizes).run())
        outcome.plan = Through(
            before, step, start, history.symbol, end.schema, after, begin.schema, tuple(moves), found.shaped, rest
        )
        return outcome

    def _fields(self, writer: _ClassSide, reader: _ClassSide) -> Outcome:
        """Field by field: by key, by alias, or filled in."""
        if writer is reader or (writer.schema.is_like(reader.schema) and not self._may_differ(reader.schema)):
            sizes: Mapping[str, Expr] = {name: Name(name) for name in reader.cls.dims}
            return Outcome(sizes=sizes)
        return _Frame.of(self, writer, reader, Outcome()).run()

    def _may_differ(self, schema: ir.Schema) -> bool:
        """Whether schemas that are alike may mean different things: by a migration, or one that only newer code has."""
        return self.has_steps(schema) or any(self._is_newer(cls.symbol) for cls in schema.classes)

    def _is_newer(self, symbol: str) -> bool:
        said = self.revisions.get(symbol)
        history = None if said is None else self.histories(symbol)
        return said is not None and history is not None and said > history.last > 0

    def has_steps(self, schema: ir.Schema) -> bool:
        """Whether one of the classes has migrations: then equal schemas may mean different things."""
        histories = (self.histories(cls.symbol) for cls in schema.classes)
        return any(one is not None and one.steps for one in histories)


@define
class _Frame(TypeWalk):
    """Two classes, field by field."""

    resolver: Resolver = field(kw_only=True)
    writer: _ClassSide = field(kw_only=True)
    reader: _ClassSide = field(kw_only=True)

    @classmethod
    def of(
        cls, resolver: Resolver, writer: _ClassSide, reader: _ClassSide, found: Outcome, sizes: Sizes | None = None
    ) -> "_Frame":
        sizes = sizes or Sizes(writer_sizes(writer.cls))
        return cls(found, sizes, resolver.cast, resolver=resolver, writer=writer, reader=reader)

    def run(self) -> Outcome:
        stored = {one.key: one for one in self.writer.cls.fields}
        parts: list[tuple[str, From | Fill]] = []
        missing: list[ir.Field] = []
        for one in self.reader.cls.fields:
            key = next((key for key in (one.key, *one.aliases) if key in stored), None)
            if key == one.key and stored[key].spread != one.spread:
                stored.pop(key)
                expected, got = ("items beside the other keys", "a key") if one.spread else ("a key", "items beside")
                self.found.problem(
                    "container", expected, got, (one.key,), self._hint("write another key, and the old as alias")
                )
            elif key is not None:
                self.cast_from = one.cast_from
                parts.append((one.key, From(key, self.type(stored.pop(key).type, one.type, (one.key,)))))
            elif one.default is not None:
                fill = self._fill(self.reader, one)
                parts.append((one.key, fill))
                if not fill.can_be_made:
                    expected, got = "a default that can be made again", fill.default.removeprefix("factory:")
                    hint = "a later migration begins after it was filled in: give the factory a name, or write the value in a migration"
                    if fill.present:
                        hint = "there is no instance yet: write a factory that takes nothing"
                    self.found.problem("default", expected, got, (one.key,), hint)
            else:
                missing.append(one)
        drops = [Drop(key, self._refill(stored.pop(key))) for key in self.reader.cls.reserved if key in stored]
        self._unsettled(list(stored.values()), missing, [one for one in parts if isinstance(one[1], Fill)])
        self.found.sizes = self.sizes.solve()
        self.found.problems += self.sizes.problems
        self.found.conditions += self.sizes.conditions
        made = Make(tuple(parts), tuple(drops))
        self.found.plan = made if missing else folded(made)
        return self.found

    def _fill(self, side: _ClassSide, one: ir.Field) -> Fill:
        """The default of a field; that of a past revision is the present one, where that says the same."""
        default = str(one.default) if side.present else renamed(str(one.default), self.resolver.renamed)
        now = None if side.present else self.resolver.declared.get(side.cls.symbol)
        for other in () if now is None else now.fields:
            if other.key == one.key and is_same(default, other.default):
                return Fill(side.cls.symbol, other.name, one.type, default, True)
        return Fill(side.cls.symbol, one.name, one.type, default, side.present)

    def _refill(self, one: ir.Field) -> Fill | None:
        return None if one.default is None else self._fill(evolve(self.writer, time="past"), one)

    def _unsettled(
        self, vanished: list[ir.Field], missing: list[ir.Field], filled: list[tuple[str, From | Fill]]
    ) -> None:
        """Fields of which the declaration does not say what became of them, or where they come from."""
        new = [*missing, *(one for one in self.reader.cls.fields if one.key in dict(filled))]
        name = self.reader.cls.qualname
        aliases = {alias: one.name for one in self.reader.cls.fields for alias in one.aliases}
        for one in vanished:
            alike = next((other for other in new if self._is_alike(one.type, other.type)), None)
            if alike is None:
                hint = f"write @state(reserved=({one.key!r},)) to drop it"
                if one.key in aliases:
                    hint = f"it is an alias of {aliases[one.key]}, which is stored too: write a migration that says which one counts"
                self.found.problem(
                    "removed", f"no such key in {name}", ir.describe(one.type), (one.key,), self._hint(hint)
                )
                continue
            new.remove(alike)
            missing = [other for other in missing if other is not alike]
            default = "" if alike.default is not None else f", and a default for {alike.name}"
            self.found.problem(
                "renamed",
                f"to know what became of {one.key!r}",
                f"a new field {alike.key!r} of the same type",
                (one.key,),
                self._hint(
                    f"if that is it, write {alike.name} = field(aliases=({one.key!r},)); "
                    f"if not, write @state(reserved=({one.key!r},)){default}"
                ),
            )
        for one in missing:
            self.found.problem(
                "added",
                ir.describe(one.type),
                "nothing",
                (one.key,),
                self._hint("write field(default=...) or field(factory=...), which fills it in for earlier checkpoints"),
            )

    def _hint(self, text: str) -> str:
        """What to write in a class of ours; others have no place for it."""
        is_ours = self.reader.cls.kind in ("state", "attrs")
        return text if is_ours else "write a migration of the class that it is in"

    def _is_alike(self, writer: ir.Type, reader: ir.Type) -> bool:
        trial = _Frame.of(self.resolver, self.writer, self.reader, Outcome())
        plan = trial.type(writer, reader, ())
        return not trial.found.problems and not isinstance(plan, ConvertLeaf)

    def now(self, symbol: str) -> str:
        return self.resolver.renamed.get(symbol, symbol)

    def node(self, writer: ir.Node, reader: ir.Node, path: Path) -> Plan:
        theirs, mine = self.resolver.below(self.writer, writer.cls), self.resolver.below(self.reader, reader.cls)
        if self._is_other_class(theirs.cls, mine.cls):
            hint = (
                f"if it is the same under another name, say so: treaty lock --moved {theirs.cls.symbol}={mine.cls.symbol}; "
                "if not, write a migration of the class that it is in"
            )
            return self.found.silent("class", mine.cls.symbol, theirs.cls.symbol, path, hint)
        found = self.resolver.classes(theirs, mine)
        plan = self.found.take(found, *path)
        if found.sizes is not None:
            # A dim that the owner does not tie is a size of its own.
            own = {name: Name(f"{'.'.join(path)}.{name}") for name in theirs.cls.dims}
            above = {**own, **dict(writer.ties)}
            for name, size in reader.ties:
                if name in found.sizes:
                    self.sizes.add(size, substituted(found.sizes[name], above), path)
        elif not isinstance(found.plan, Same):
            self._assume(writer, reader, path)
        return plan

    def _assume(self, writer: ir.Node, reader: ir.Node, path: Path) -> None:
        """Ties of a class that a migration changes: it may give other sizes, but most keep their names."""
        stored = {name: substituted(size, self.sizes.writer) for name, size in writer.ties}
        schema = self.resolver.below(self.writer, writer.cls).schema
        # A new size is one of those that were there: of two instances with the same sizes, the same.
        is_known = set(schema.root_class.dims) <= stored.keys() and not any(map(_has_any_length, schema.classes))
        where = f"{writer.cls}({stored})" if is_known else ".".join(path)
        for name, size in reader.ties:
            self.sizes.assumed.append(SizePair(size, stored.get(name, Name(f"{where}.{name}")), path))

    def _is_other_class(self, writer: ir.Class, reader: ir.Class) -> bool:
        """Of classes of other libraries the name is the meaning: two with the same fields are two things.

        So are two of ours, such as the states of two optimizers: where the writer's module has a lock, that would say that a
        class was renamed. Without a lock, that is what is assumed.
        """
        history = self.resolver.histories(reader.symbol)
        if writer.symbol == reader.symbol or (history is not None and writer.symbol in history.former):
            return False
        if self.resolver.renamed.get(writer.symbol) == reader.symbol:
            return False
        foreign = ("namedtuple", "foreign")
        if writer.kind in foreign and reader.kind in foreign:
            return True
        return self.resolver.histories(writer.symbol) is not None


def _instructed(past: ir.Schema, reader: ir.Schema) -> ir.Schema:
    """A revision with what the reader says of earlier checkpoints: it may have been told so after that was locked."""
    said = {one.key: one for one in reader.root_class.fields}
    own = past.root_class
    keys = {one.key for one in own.fields}
    fields = tuple(
        evolve(
            one,
            aliases=(*one.aliases, *(alias for alias in said[one.key].aliases if alias not in keys)),
            cast_from=(*one.cast_from, *said[one.key].cast_from),
        )
        if one.key in said
        else one
        for one in own.fields
    )
    reserved = (*own.reserved, *(key for key in reader.root_class.reserved if key not in keys))
    changed = evolve(own, fields=fields, reserved=reserved)
    return ir.Schema(past.root, tuple(changed if cls is own else cls for cls in past.classes))


def _has_any_length(cls: ir.Class) -> bool:
    """Whether a class has lists or dicts of which no dim says how long they are."""
    types = (type for one in cls.fields for type in ir.every_type(one.type))
    return any(getattr(type, "length", 0) is None for type in types)


def _past(history: History, number: int, writer: _ClassSide, reader: _ClassSide) -> _ClassSide:
    """A revision with the type arguments that the reader has, so that a migration finds those as they are to be."""
    like = reader.schema if history.has(number, reader.schema) else writer.schema
    return _ClassSide(history.schema(number, like), "past", tuple(history[number].uses.items()))


def _past_number(history: History, side: _ClassSide, default: _D) -> int | _D:
    """Which revision a class inside a past one was of: where only the meaning changed since, the lock says it."""
    numbers = history.numbers(side.schema)
    said = dict(side.uses).get(history.symbol)
    return said if said in numbers else max(numbers, default=default)


def _steps(history: History, number: int, present: int) -> list[int]:
    return sorted(step for step in history.steps if number <= step < present)


def _symbols(history: History, writer: _ClassSide) -> tuple[str, ...]:
    return writer.cls.symbol, history.symbol, *history.former


def _is_kept(plan: Plan, assumed: set[int]) -> bool:
    """Whether a plan changes nothing; of a class inside itself, if nothing else does."""
    if isinstance(plan, Same):
        if id(plan) in assumed or plan.plan is None:
            return id(plan) in assumed
        assumed.add(id(plan))
        return _is_kept(plan.plan, assumed)
    if isinstance(plan, (EachItem, Unless)):
        return _is_kept(plan.plan, assumed)
    if isinstance(plan, Make):
        ways = [one for key, one in plan.parts if isinstance(one, From) and one.key == key]
        return not plan.drops and len(ways) == len(plan.parts) and all(_is_kept(one.plan, assumed) for one in ways)
    return isinstance(plan, Keep)
