"""The declaration of a state class -> what is wrong with it, without running it.

The types read are those of the IR, so that ties, lengths, static fields and the settling of dims are the schema's own
code, and say the same words. What is not surely wrong is not reported.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs
from attrs import frozen
from mypy.nodes import TypeInfo

from treaty.generator import _mypy_notes as notes
from treaty.generator._mypy_names import Names, Position, Unsure
from treaty.generator._mypy_types import Scope, Types
from treaty.schema import SchemaError, _classes, _leaves, _ties, ir
from treaty.schema._evolving import check_cast_from, default_problem, key_problems
from treaty.schema._identity import generic_id
from treaty.schema._settle import settle
from treaty.schema._spread import check_spread
from treaty.schema.dims import Name

_UNCLEAR: Final = ("foreign", "typeddict")
_FIELDS: Final = ("attr.field", "attrs.field", f"{notes.DECLARE}.field")


@frozen
class FieldProblem:
    """What is wrong with a field; with the class where `field` is empty."""

    field: str
    text: str


@frozen
class Verdict:
    """What is surely wrong with a state class; the classes it was read from, and a digest of all they say."""

    problems: list[FieldProblem]
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
        self.problems: list[FieldProblem] = []
        self.classes: set[str] = set()
        self._root = root
        self._types = Types(names, self.node, self._inline)
        self._raw: dict[str, ir.Class] = {}
        self._defaults: dict[str, Any] = {}  # of the root's own fields, where they are literals
        self._unsure = False

    def node(self, info: TypeInfo, args: tuple[ir.Type, ...]) -> ir.Node:
        symbol = f"{info.module_name}:{_qualname(info)}"
        id = generic_id(symbol, args) if args else symbol
        if id not in self._raw:
            self.classes.add(info.fullname)
            kind = notes.kind_of(info) or "attrs"
            reserved = {key: cls.name for cls in _ancestry(info) for key in self._reserved(cls)}
            self._raw[id] = ir.Class(id, symbol, kind, (), (), reserved=tuple(reserved))
            scope = dict(zip(info.type_vars, args, strict=False))
            named = {field.name: field for cls in _ancestry(info) for field in self._fields(cls, info, kind, scope)}
            fields = tuple(named.values())
            self._raw[id] = attrs.evolve(self._raw[id], fields=fields)
            if info is self._root and not args:
                self.problems += [FieldProblem(name, text) for name, text in key_problems(fields, reserved)]
                self.problems += list(self._default_problems(fields))
        return ir.Node(id)

    def digest(self) -> str:
        return hashlib.sha256(repr(self._raw).encode()).hexdigest()

    def settled(self) -> list[FieldProblem]:
        """Problems of dims, which need every class: none while one of them is not surely known."""
        qualname = _qualname(self._root)
        if self._unsure or sum(cls.qualname == qualname for cls in self._raw.values()) != 1:
            return []
        try:
            settle(self._raw, _ties.EVERY, declared=True)
        except SchemaError as error:
            return [found for text in error.problems for found in _problem_of(qualname, text)]
        return []

    def _reserved(self, cls: TypeInfo) -> tuple[str, ...]:
        """The keys that the @state above a class reserves, as far as its text tells."""
        try:
            for one in self._types.names.class_def(cls).decorator_list if notes.TAG in cls.metadata else ():
                if isinstance(one, ast.Call) and self._is(one.func, "state", Position(cls.module_name)):
                    return notes.texts(notes.keywords(one).get("reserved"))
        except Unsure:
            pass
        return ()

    def _default_problems(self, fields: Iterable[ir.Field]) -> Iterator[FieldProblem]:
        for field in fields:
            if field.name in self._defaults and not any(map(self._is_unclear, ir.every_type(field.type))):
                problem = default_problem(self._raw, field, self._defaults[field.name])
                if problem is not None:
                    yield FieldProblem(field.name, problem)

    def _is_unclear(self, type: ir.Type) -> bool:
        """Whether the name of a class or function, or all the keys of a dict, may not be known here."""
        return type.KIND == "partial" or any(self._raw[one.cls].kind in _UNCLEAR for one in ir.nodes(type))

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
                    self.problems += [FieldProblem(name, text) for text in error.problems]

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
        type, spread = self._types.field(statement.annotation, place, scope)
        key = name if options.get("key") is None else str(options["key"])
        key = key if spread is None else spread.text
        if keys.get(key, name) != name:
            write = "field(key=...)" if spread is None else "Keys(...)"
            raise SchemaError(f"key {key!r} is already the key of {keys[key]}; write {write} with another")
        keys[key] = name
        if spread is not None:
            check_spread(type, spread, options.get("key"), bool(options.get("static")))
        if options.get("static"):
            _leaves.check_static(type)
        aliases, cast_from = options.get("aliases", ()), options.get("cast_from", ())
        check_cast_from(type, cast_from)
        if place.cls is self._root and not scope:
            self._defaults |= {name: options["default"]} if "default" in options else {}
        return ir.Field(key, name, name, type, aliases=aliases, cast_from=cast_from, spread=spread is not None)

    def _options(self, value: ast.expr | None, place: Position) -> Mapping[str, Any]:
        """The literal arguments of `field(...)` that change what is stored, or what earlier checkpoints become."""
        if value is None:
            return {}
        if not isinstance(value, ast.Call):
            return notes.if_literal("default", value)
        callee = self._types.names.find(value.func, place).fullname
        given = notes.keywords(value)
        if callee in ("attr.field", "attrs.field") and "init" in given and notes.literal(given["init"]) is False:
            raise SchemaError(_classes.NO_INIT)
        found: dict[str, Any] = {}
        if "default" in given and "converter" not in given and callee in _FIELDS:
            found |= notes.if_literal("default", given["default"])
        if callee == f"{notes.DECLARE}.field":
            found |= {name: notes.literal(given[name]) for name in ("key", "static") if name in given}
            found |= {name: notes.texts(given.get(name)) for name in ("aliases", "cast_from")}
        return found

    def _is(self, expr: ast.expr, name: str, place: Position) -> bool:
        return self._types.names.find(expr, place).fullname == f"{notes.DECLARE}.{name}"

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


def _problem_of(qualname: str, text: str) -> Iterator[FieldProblem]:
    """The problem that `settle` words as `Class.field: ...` or `Class: ...`, if it is of this class."""
    place, _, rest = text.partition(": ")
    if place == qualname:
        yield FieldProblem("", rest)
    elif place.rpartition(".")[0] == qualname:
        yield FieldProblem(place.rpartition(".")[2], rest)
