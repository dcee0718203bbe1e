"""The declaration of a state class -> what is wrong with it, without running it.

The types read are those of the IR, so that ties, lengths, static fields and the settling of dims are the schema's own
code, and say the same words. What is not surely wrong is not reported.
"""

import ast
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from attrs import frozen
from mypy.nodes import TypeInfo

from treaty.generator import _mypy_notes as notes
from treaty.generator._mypy_names import Names, Position, Unsure
from treaty.generator._mypy_types import Scope, Types
from treaty.schema import SchemaError, _classes, _leaves, _ties, ir
from treaty.schema._identity import generic_id
from treaty.schema._settle import settle
from treaty.schema.dims import Name


@frozen
class Problem:
    """What is wrong with a field; with the class where `field` is empty."""

    field: str
    text: str


@frozen
class Verdict:
    """What is surely wrong with a state class; the classes it was read from, and a digest of all they say."""

    problems: list[Problem]
    classes: set[str]
    digest: str


def read(info: TypeInfo, names: Names) -> Verdict:
    """Read the declaration of a state class."""
    reader = _ClassReader(names, info)
    reader.node(info, ())
    return Verdict(reader.problems or reader.settled(), reader.classes, reader.digest())


class _ClassReader:
    """Reads a class and all it reaches. Problems are those of the class itself: the others have their own turn."""

    def __init__(self, names: Names, root: TypeInfo) -> None:
        self.problems: list[Problem] = []
        self.classes: set[str] = set()
        self._root = root
        self._types = Types(names, self.node, self._inline)
        self._raw: dict[str, ir.Class] = {}
        self._unsure = False

    def node(self, info: TypeInfo, args: tuple[ir.Type, ...]) -> ir.Node:
        symbol = f"{info.module_name}:{_qualname(info)}"
        id = generic_id(symbol, args) if args else symbol
        if id not in self._raw:
            self.classes.add(info.fullname)
            kind = notes.kind_of(info) or "attrs"
            self._raw[id] = ir.Class(id, symbol, kind, (), ())
            scope = dict(zip(info.type_vars, args, strict=False))
            fields = {field.name: field for cls in _ancestry(info) for field in self._fields(cls, info, kind, scope)}
            self._raw[id] = attrs.evolve(self._raw[id], fields=tuple(fields.values()))
        return ir.Node(id)

    def digest(self) -> str:
        return hashlib.sha256(repr(self._raw).encode()).hexdigest()

    def settled(self) -> list[Problem]:
        """Problems of dims, which need every class: none while one of them is not surely known."""
        qualname = _qualname(self._root)
        if self._unsure or sum(cls.qualname == qualname for cls in self._raw.values()) != 1:
            return []
        try:
            settle(self._raw, _ties.EVERY)
        except SchemaError as error:
            return [found for text in error.problems for found in _problem_of(qualname, text)]
        return []

    def _fields(self, cls: TypeInfo, owner: TypeInfo, kind: ir.DeclaredKind, scope: Scope) -> Iterator[ir.Field]:
        """The fields that one class of the ancestry declares."""
        keys: dict[str, str] = {}
        place = Position(cls.module_name, cls)
        for statement in self._body(cls, owner):
            if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
                continue
            name = statement.target.id
            try:
                if not self._is_class_var(statement.annotation, place):
                    yield self._field(name, statement, place, kind, scope, keys)
            except Unsure:
                self._unsure = True
            except SchemaError as error:
                self._unsure = True
                if cls is self._root and not scope:
                    self.problems += [Problem(name, text) for text in error.problems]

    def _body(self, cls: TypeInfo, owner: TypeInfo) -> list[ast.stmt]:
        try:
            if cls is not owner and cls.type_vars:
                raise Unsure  # what a subclass gives for them is not followed
            return self._types.names.class_def(cls).body
        except Unsure:
            self._unsure = True
            return []

    def _field(
        self,
        name: str,
        statement: ast.AnnAssign,
        place: Position,
        kind: ir.DeclaredKind,
        scope: Scope,
        keys: dict[str, str],
    ) -> ir.Field:
        _classes.check_name(name, kind)
        options = self._options(statement.value, place)
        key = name if options.get("key") is None else str(options["key"])
        if keys.get(key, name) != name:
            raise SchemaError(f"key {key!r} is already the key of {keys[key]}; write field(key=...) with another")
        keys[key] = name
        type = self._types.read(statement.annotation, place, scope)
        if options.get("static"):
            _leaves.check_static(type)
        return ir.Field(key, name, name, type)

    def _options(self, value: ast.expr | None, place: Position) -> Mapping[str, Any]:
        """The literal arguments of `field(...)` that change what is stored."""
        if not isinstance(value, ast.Call):
            return {}
        callee = self._types.names.find(value.func, place).fullname
        given = notes.keywords(value)
        if callee in ("attr.field", "attrs.field") and "init" in given and notes.literal(given["init"]) is False:
            raise SchemaError(
                "a field with init=False cannot be restored; remove init=False, and give the field a default if it needs one"
            )
        if callee != f"{notes.DECLARE}.field":
            return {}
        return {name: notes.literal(given[name]) for name in ("key", "static") if name in given}

    def _is_class_var(self, annotation: ast.expr, place: Position) -> bool:
        expr = notes.unquoted(annotation)
        base = expr.value if isinstance(expr, ast.Subscript) else expr
        is_name = isinstance(base, (ast.Name, ast.Attribute))
        return is_name and self._types.names.find(base, place).fullname == "typing.ClassVar"

    def _inline(self, types: Mapping[str, ir.Type]) -> ir.Node:
        id = f"#{len(self._raw)}"
        fields = tuple(ir.Field(name, name, name, type) for name, type in types.items())
        self._raw[id] = ir.Class(id, id, "foreign", (), fields)
        return ir.Node(id, ((_ties.EVERY, Name(_ties.EVERY)),))


def _ancestry(info: TypeInfo) -> list[TypeInfo]:
    """The classes whose fields a class has, the oldest first."""
    return [cls for cls in reversed(info.mro) if notes.kind_of(cls) is not None]


def _qualname(info: TypeInfo) -> str:
    return info.fullname.removeprefix(f"{info.module_name}.")


def _problem_of(qualname: str, text: str) -> Iterator[Problem]:
    """The problem that `settle` words as `Class.field: ...` or `Class: ...`, if it is of this class."""
    place, _, rest = text.partition(": ")
    if place == qualname:
        yield Problem("", rest)
    elif place.rpartition(".")[0] == qualname:
        yield Problem(place.rpartition(".")[2], rest)
