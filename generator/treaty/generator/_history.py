"""The history module of a schema module: a TypedDict for each revision of its classes, and the lock itself, for the runtime.

A class that a revision reaches is the TypedDict of the revision that it was of then. What has no revisions here, such as a class
of another module or a tuple, has a TypedDict with the name that it would have in the generated module.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from attrs import define, field, frozen

from treaty.generator._expressions import state_type
from treaty.generator._layout import WIDTH
from treaty.generator._lower import LOWERED, lower
from treaty.generator._modules import Module
from treaty.generator._names import TypedEntry, in_docstring, is_name, literal, pascal, short, title_of
from treaty.generator.render import checked, laid_out
from treaty.schema import Schema, ir
from treaty.schema.evolution.history import History, Revision
from treaty.schema.evolution.lock import Lock

# Names that the types in a class body are looked up by: a key that is one of them would hide it there.
_LOOKED_UP: Final = re.compile(r"dict|str|object|int|float|bool|bytes|complex|_codec|_np|_T\d+|\w*V\d+|\w*State\d*")


@frozen
class RevisionRecord:
    """One TypedDict. `by_call`: as TypedDict("X", {...}), for keys that cannot be lines of a class; it cannot be generic."""

    name: str
    title: str
    by_call: bool
    fields: list[TypedEntry]
    variables: list[str]


@frozen
class HistoryPlan:
    source: str
    variables: list[str]
    records: list[RevisionRecord]
    lock: str


def history_text(module: Module, lock: Lock) -> str:
    """The text of the history module: of every revision that is locked, and of what is declared but not locked yet."""
    plan = _plan(module, lock)
    types = "".join(one.type for record in plan.records for one in record.fields)
    imports = {"import numpy as _np": "_np.", "from treaty.runtime import codec as _codec": "_codec."}
    used = [line for line, mark in imports.items() if mark in types]
    return checked(laid_out("history.py.j2", plan=plan, imports=used), module.name)


def _plan(module: Module, lock: Lock) -> HistoryPlan:
    records = _Records(dict(_histories(module, lock))).all()
    variables = sorted({name for record in records for name in record.variables}, key=lambda name: int(name[2:]))
    return HistoryPlan(
        source=module.name,
        variables=variables,
        records=records,
        lock=lock.to_text(),
    )


def _histories(module: Module, lock: Lock) -> Iterator[tuple[str, History]]:
    """The histories of the classes that are locked or declared, with what is declared but not locked as their last revision."""
    for symbol in dict.fromkeys([*lock.lines, *module.declared]):
        history = lock.history(symbol, module.steps.get(symbol))
        schema = module.declared.get(symbol)
        if schema is not None and history.present(schema) > history.last:
            made = Revision(history.last + 1, schema.digest, partial(getattr, schema, "as_stored"))
            history = History(symbol, (*history.revisions, made), history.steps, history.former)
        yield symbol, history


@define
class _Records:
    """Makes the TypedDicts: those of revisions, and on the way those of other classes that they reach."""

    histories: Mapping[str, History]
    made: list[RevisionRecord] = field(factory=list)
    others: dict[tuple[str, str], str] = field(factory=dict)  # (class id, digest) -> name
    taken: set[str] = field(factory=set)
    by_name: dict[str, list[History]] = field(factory=dict)  # those of classes that have a symbol, or had it

    def __attrs_post_init__(self) -> None:
        for history in self.histories.values():
            for name in (history.symbol, *history.former):
                self.by_name.setdefault(name, []).append(history)

    def all(self) -> list[RevisionRecord]:
        for symbol, history in self.histories.items():
            for revision in history.revisions:
                schema = revision.schema
                view = _View(self, schema, lower(schema), revision)
                title = f"{in_docstring(short(symbol))}, revision {revision.number}"
                self.made.append(view.record(_version(symbol, revision.number), title, schema.root))
        return self.made

    def named(self, cls: ir.Class) -> str:
        """The name of a class that has no revisions here; of several declarations of one, each has a number."""
        stem = f"{pascal(title_of(cls).replace(ir.VARIABLE, 'T'))}State"
        name, number = stem, 1
        while name in self.taken:
            number += 1
            name = f"{stem}{number}"
        self.taken.add(name)
        return name

    def revision(self, schema: Schema, owner: Revision) -> tuple[History, int] | None:
        """Which revision a class is of that another one reached; the one that the lock says, where several fit."""
        symbol = schema.root_class.symbol
        for history in self.by_name.get(symbol, ()):
            if numbers := history.numbers(schema):
                said = owner.uses.get(symbol)
                return history, said if said in numbers else numbers[-1]
        return None


@frozen
class _View:
    """The classes that one revision reaches, and what they are called."""

    records: _Records
    schema: Schema
    lowered: Schema
    owner: Revision

    def record(self, name: str, title: str, id: str) -> RevisionRecord:
        cls = self.lowered[id]
        by_call = _by_call(cls)
        variables = [] if by_call else self._variables(id)
        refer: Callable[[str], str] = lambda other: self._reference(other, closed=by_call)  # noqa: E731
        fields = [_entry(one.key, state_type(refer, one.type), by_call) for one in cls.fields]
        return RevisionRecord(name, title, by_call, fields, variables)

    def _reference(self, id: str, *, closed: bool) -> str:
        """The type of a class's state; what a variable stands for is not said where it is `closed`."""
        if id.startswith(ir.VARIABLE):
            return "object" if closed else _variable(id)
        known = {cls.id for cls in self.schema.classes}
        found = self.records.revision(self.schema.at(id), self.owner) if id in known else None
        if found is not None:
            history, number = found
            generic = history[number].schema.root_class
            if not generic.args:
                return _version(history.symbol, number)
            if not _by_call(generic) and not any(map(_has_tuple, self.schema[id].args)):
                args = [
                    state_type(lambda one: self._reference(one, closed=closed), arg) for arg in self.schema[id].args
                ]
                return f"{_version(history.symbol, number)}[{', '.join(args)}]"
        return self._other(id, closed=closed)

    def _other(self, id: str, *, closed: bool) -> str:
        key = id, self.lowered.at(id).digest
        if key not in self.records.others:
            cls = self.lowered[id]
            self.records.others[key] = name = self.records.named(cls)
            self.records.made.append(self.record(name, f"State of {in_docstring(short(id))}", id))
        variables = [] if _by_call(self.lowered[id]) else self._variables(id)
        args = ", ".join("object" if closed else name for name in variables)
        return self.records.others[key] + (f"[{args}]" if args else "")

    def _variables(self, id: str) -> list[str]:
        """The type variables that a class reaches, or has: those of a revision are all parameters of its TypedDict."""
        reached = {cls.id for cls in self.lowered.at(id).classes if cls.id.startswith(ir.VARIABLE)}
        if id == self.schema.root:
            reached |= {node.cls for arg in self.lowered[id].args for node in ir.nodes(arg)}
        return [_variable(one) for one in sorted(reached, key=lambda one: int(one[1:]))]


def _entry(key: str, type: str, by_call: bool) -> TypedEntry:
    is_long = not by_call and len(f"    {key}: {type}") > WIDTH
    return TypedEntry(key, literal(type) if is_long else type)  # no formatter breaks a string


def _version(symbol: str, number: int) -> str:
    return f"{pascal(symbol)}V{number}"


def _variable(id: str) -> str:
    return f"_T{id[len(ir.VARIABLE) :]}"


def _by_call(cls: ir.Class) -> bool:
    keys: Iterable[str] = (one.key for one in cls.fields)
    return any(not is_name(key) or key.startswith("__") or _LOOKED_UP.fullmatch(key) for key in keys)


def _has_tuple(type: ir.Type) -> bool:
    """Whether a type argument has what becomes a class of its own only where it is a field."""
    return any(isinstance(one, LOWERED) for one in ir.every_type(type))
