"""Declarations -> IR: reads annotations of attrs classes, NamedTuples and TypedDicts.

Classes are read first, with ties as written; dims are settled after, when every class is known.
"""

import enum
import inspect
import typing
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

import attrs
import jaxtyping
import numpy as np
from attrs import NOTHING

from treaty.schema import ir, modules
from treaty.schema._classes import (
    Spot,
    bind,
    check_name,
    class_kind,
    constructor_names,
    declared,
    default_value,
    evaluate,
    reserved_keys,
    resolve,
)
from treaty.schema._declare import ArraySpec, Dims, Fields, FromInit, Keys, Length, Variable
from treaty.schema._errors import SchemaError
from treaty.schema._evolving import check_cast_from, default_problem, key_problems
from treaty.schema._identity import generic_id, inline_id
from treaty.schema._leaves import (
    SCALARS,
    TYPE_ALIAS,
    UNION,
    UNIONS,
    WRITE_PARTIAL,
    WRITE_STATE,
    array,
    array_of,
    check_static,
    hashable,
    is_partial,
    is_pytree,
    no_such_field,
    no_type_for,
    numpy_scalar,
    refuse,
    show,
)
from treaty.schema._settle import settle
from treaty.schema._spread import check_spread, misplaced, without_keys
from treaty.schema._ties import EVERY, open_ties, tie, with_length
from treaty.schema.dims import Name
from treaty.schema.from_init.expand import KnownClasses, state_type
from treaty.schema.from_init.generated import Generated
from treaty.schema.from_init.notes import factory_symbol, from_init, misplaced_init, refuse_options
from treaty.schema.modules import can_be_imported, symbol_of

_Scope = Mapping[Any, Any]  # TypeVar -> the annotation it stands for


def schema_of(cls: Any) -> ir.Schema:
    """The schema of a state class, a plain attrs class, a NamedTuple, a TypedDict, or a generic alias of one."""
    reader = SchemaReader()
    root = reader.root(cls)
    return ir.Schema(root, reader.classes()).at(root)


def schema_as_generated(cls: Any, generated: Callable[[str], ir.Schema | None]) -> ir.Schema:
    """The same, where there may be code for it by its id: what costs time is asked only as far as the code may be stale."""
    reader = SchemaReader()
    root = reader.root(cls)
    return ir.Schema(root, reader.classes(generated(root) if root else None)).at(root)


class SchemaReader:
    """Reads any number of roots into one table of classes; `importable`: of such that a module of code can import."""

    def __init__(self, *, importable: bool = False) -> None:
        self._importable = importable
        self._raw: dict[str, ir.Class] = {}
        self._problems: list[str] = []
        self._defaults: list[tuple[Any, ir.DeclaredKind, ir.Field]] = []  # with their classes
        self._inline_places: dict[str, Spot] = {}  # by id: the field that first describes a class in place
        self._from_init: list[tuple[Any, str, ir.Field, FromInit]] = []  # of a class and its id
        self.objects: dict[str, Any] = {}  # by symbol: every class and function that the IR names

    def root(self, annotation: Any) -> str:
        """Read a class (and all it reaches); its id in the table."""
        origin = typing.get_origin(annotation) or annotation
        if not isinstance(origin, type) or class_kind(origin) is None:
            name = getattr(annotation, "__qualname__", repr(annotation))
            self._problems.append(f"{name}: expected a class declared with @state (or an attrs class); {WRITE_STATE}")
            return ""
        try:
            return self._class(origin, typing.get_args(annotation), {}).cls
        except SchemaError as error:
            self._problems += [f"{Spot(origin)}: {problem}" for problem in error.problems]
            return ""

    def generic(self, cls: type) -> str:
        """Read a class that `root` takes without arguments, its type variables being classes `~0`, `~1`, …; its id."""
        variables = tuple(Annotated[Any, Variable(n)] for n, _ in enumerate(getattr(cls, "__parameters__", ())))
        return self.root(cls[variables] if variables else cls)  # type: ignore[index]

    def classes(self, generated: ir.Schema | None = None) -> tuple[ir.Class, ...]:
        """All classes read, dims settled. Raises SchemaError with every problem of every class."""
        if not self._problems:
            self._ask_optimizers(generated)
        self._check_defaults()
        if self._problems:
            raise SchemaError(*self._problems)
        return self._settled()

    def _settled(self) -> tuple[ir.Class, ...]:
        return settle(self._raw, EVERY, self._place_of, declared=True)

    def _place_of(self, id: str) -> str:
        return str(self._inline_places.get(id) or Spot(self._object(id)))

    def _object(self, id: str) -> Any:
        return self.objects.get(self._raw[id].symbol)

    def _symbol(self, value: Any) -> str:
        symbol = symbol_of(value)
        if self.objects.setdefault(symbol, value) is not value:
            raise SchemaError(f"two different objects are called {symbol}; give each a name of its own")
        if self._importable and not can_be_imported(symbol, value):
            raise SchemaError(f"{symbol} cannot be imported by that name; define it at the top level of a module")
        return symbol

    def _class(self, cls: Any, args: tuple[Any, ...], scope: _Scope) -> ir.Node:
        inner = bind(cls, args, scope)
        parameters = getattr(cls, "__parameters__", ())
        read_args = tuple(self._type(variable, inner, Spot(cls)) for variable in parameters)
        symbol = self._symbol(cls)
        id = generic_id(symbol, read_args) if args else symbol
        if id not in self._raw:
            kind = class_kind(cls)
            assert kind is not None  # else there would be no class reference
            reserved = reserved_keys(cls)
            self._raw[id] = ir.Class(id, symbol, kind, (), (), args=read_args, reserved=tuple(reserved))
            fields = self._fields(cls, id, kind, inner)
            self._raw[id] = attrs.evolve(self._raw[id], fields=fields)
            self._problems += [f"{Spot(cls, name)}: {problem}" for name, problem in key_problems(fields, reserved)]
            self._defaults += [(cls, kind, field) for field in fields if field.default is not None]
        return ir.Node(id)

    def _fields(self, cls: Any, id: str, kind: ir.DeclaredKind, scope: _Scope) -> tuple[ir.Field, ...]:
        try:
            hints, found = resolve(cls), declared(cls, kind)
        except SchemaError as error:
            self._problems += error.problems
            return ()
        fields: list[ir.Field] = []
        keys: dict[str, str] = {}
        for name, alias, options, default in found:
            place = Spot(cls, name)
            try:
                if name not in hints:
                    raise SchemaError(f"no annotation; write {name}: Float32[Array, 'd'] or another type")
                check_name(name, kind)
                hint, spread = without_keys(hints[name])
                key = name if options.key is None else options.key
                key = key if spread is None else spread.text
                if key in keys:
                    write = "field(key=...)" if spread is None else "Keys(...)"
                    raise SchemaError(f"key {key!r} is already the key of {keys[key]}; write {write} with another")
                keys[key] = name
                if (marker := from_init(hint)) is not None:
                    refuse_options(marker, options, spread)
                    init = factory_symbol(marker, cls)
                    self.objects[init] = marker.make
                    fields.append(ir.Field(key, name, alias, ir.Untyped(), False, default, options.aliases, init=init))
                    self._from_init.append((cls, id, fields[-1], marker))
                    continue
                type = self._type(hint, scope, place)
                if spread is not None:
                    check_spread(type, spread, options.key, options.static)
                if not _is_open(type):  # else whoever reads the class with arguments checks
                    if options.static:
                        check_static(type)
                    check_cast_from(type, options.cast_from)
                fields.append(
                    ir.Field(
                        key,
                        name,
                        alias,
                        type,
                        options.static,
                        default,
                        options.aliases,
                        options.cast_from,
                        spread is not None,
                    )
                )
            except SchemaError as error:
                self._problems += [f"{place}: {problem}" for problem in error.problems]
        return tuple(fields)

    def _ask_optimizers(self, generated: ir.Schema | None) -> None:
        """The types of fields with FromInit: of inner classes first, as they were read."""
        for cls, id, field, marker in self._from_init:
            settled = {one.id: one for one in self._settled()}
            spot = Spot(cls, field.name)
            try:
                type = state_type(
                    marker,
                    str(field.init),
                    settled[id],
                    KnownClasses(settled, self.objects, self._symbol, partial(self._enter, spot)),
                    Generated.of(generated, id, field.name),
                )
                fields = [
                    attrs.evolve(one, type=type) if one.name == field.name else one for one in self._raw[id].fields
                ]
                self._raw[id] = attrs.evolve(self._raw[id], fields=tuple(fields))
            except SchemaError as error:
                self._problems += [f"{spot}: {problem}" for problem in error.problems]
        self._from_init.clear()

    def _check_defaults(self) -> None:
        """When every class is known. Where code is generated, factories are called: what they make has to fit as well."""
        for cls, kind, field in self._defaults:
            try:
                made = default_value(cls, kind, field.name, call=modules.generating)
                problem = None if made is NOTHING else default_problem(self._raw, field, made)
            except SchemaError as error:
                problem = str(error)
            if problem is not None:
                self._problems.append(f"{Spot(cls, field.name)}: {problem}")
        self._defaults.clear()

    def _type(self, annotation: Any, scope: _Scope, place: "Spot") -> ir.Type:
        """One annotation. Every branch is one row of the schema language in the docs."""
        if isinstance(annotation, TypeVar):
            return self._type_variable(annotation, scope, place)
        if isinstance(annotation, (str, typing.ForwardRef)):
            return self._type(evaluate(annotation, place.cls), scope, place)
        if typing.get_origin(annotation) is typing.Annotated:
            return self._annotated(annotation, scope, place)
        if isinstance(annotation, TYPE_ALIAS):
            return self._type(annotation.__value__, scope, place)
        if typing.get_origin(annotation) is typing.Required:
            return self._type(typing.get_args(annotation)[0], scope, place)
        if isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray):
            return array(annotation)
        if annotation in (Any, object) or is_pytree(annotation):
            return ir.Untyped()
        if hashable(annotation) and annotation in SCALARS:
            return ir.Scalar(SCALARS[annotation])
        if isinstance(annotation, type) and issubclass(annotation, np.generic):
            return ir.NumpyScalar(numpy_scalar(annotation))
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            if issubclass(annotation, enum.Flag) or not annotation.__members__:
                raise SchemaError(
                    f"cannot store {show(annotation)}: a member has no one name; write an Enum with members, or int"
                )
            return ir.Enum(self._symbol(annotation), tuple(annotation.__members__))
        return self._container(annotation, scope, place)

    def _container(self, annotation: Any, scope: _Scope, place: "Spot") -> ir.Type:
        origin, args = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in UNIONS:
            inner = [arg for arg in args if arg is not type(None)]
            if len(inner) != 1 or len(args) != 2:
                raise SchemaError(f"union {show(annotation)}: {UNION}")
            return ir.Optional(self._type(inner[0], scope, place))
        if annotation in (typing.List, typing.Tuple, typing.Dict):  # noqa: UP006 - what people wrote
            raise SchemaError(refuse(origin))
        if origin is list:
            return ir.Sequence(self._type(args[0], scope, place), immutable=False)
        if origin is tuple:
            if len(args) == 2 and args[1] is Ellipsis:
                return ir.Sequence(self._type(args[0], scope, place), immutable=True)
            return ir.Tuple(tuple(self._type(arg, scope, place) for arg in args if arg != ()))
        if origin is dict:
            if args[0] not in (str, int):
                raise SchemaError(f"{show(annotation)}: expected dict[str, X] or dict[int, X]")
            return ir.Dict(SCALARS[args[0]], self._type(args[1], scope, place))
        cls = origin or annotation
        if isinstance(cls, type) and class_kind(cls) is not None:
            return self._class(cls, args, scope)
        raise SchemaError(refuse(annotation))

    def _type_variable(self, variable: Any, scope: _Scope, place: "Spot") -> ir.Type:
        """What the variable stands for; its dims become this class's, so that mu and nu of one P agree."""
        if variable in scope:
            return open_ties(self._type(scope[variable], {}, place))
        default = getattr(variable, "__default__", None)
        if default is None or default is getattr(typing, "NoDefault", None):
            default = variable.__bound__
        return ir.Untyped() if default is None else open_ties(self._type(default, {}, place))

    def _annotated(self, annotation: Any, scope: _Scope, place: "Spot") -> ir.Type:
        base, *notes = typing.get_args(annotation)
        spec = next((note for note in notes if isinstance(note, ArraySpec)), None)
        fields = next((note for note in notes if isinstance(note, Fields)), None)
        variable = next((note for note in notes if isinstance(note, Variable)), None)
        if spec is not None:
            type = array_of(base, spec.dtype, spec.dims)
        elif fields is not None:
            type = self._foreign(base, fields, scope, place)
        elif variable is not None:
            made = ir.variable(variable.number)
            type = ir.Node(self._raw.setdefault(made.id, made).id)
        else:
            type = self._type(base, scope, place)
        for note in notes:
            if isinstance(note, Dims):
                type = tie(type, note)
            elif isinstance(note, Length):
                type = with_length(type, note.size)
            elif isinstance(note, Keys):
                raise misplaced(note)
            elif isinstance(note, FromInit):
                raise misplaced_init(note)
            elif inspect.isclass(note) and issubclass(note, (Dims, Length, Keys, ArraySpec, Fields, FromInit)):
                raise SchemaError(f"Annotated[..., {note.__name__}]: write {note.__name__}(...) with its arguments")
        return type

    def _foreign(self, cls: Any, given: Fields, scope: _Scope, place: "Spot") -> ir.Type:
        """A class of another library, its field types given in place and in the owner's scope of dims."""
        if is_partial(cls):
            return self._partial(given, scope, place)
        origin = typing.get_origin(cls) or cls
        if not isinstance(origin, type):
            raise SchemaError(
                f"Annotated[{show(cls)}, Fields(...)]: expected a class, as in Annotated[optax.TraceState, Fields(trace=Params)]"
            )
        expected = constructor_names(origin)
        for name in given.types:
            if name not in expected:
                raise SchemaError(no_such_field(name, origin.__name__, expected))
        if missing := [name for name in expected if name not in given.types]:
            raise SchemaError(no_type_for(missing, origin.__name__))
        types = {name: given.types[name] for name in expected}
        aliases = {one.name: str(one.alias) for one in attrs.fields(origin)} if attrs.has(origin) else {}
        return self._inline(self._symbol(origin), "foreign", types, scope, place, aliases)

    def _partial(self, given: Fields, scope: _Scope, place: "Spot") -> ir.Type:
        if "func" not in given.types or set(given.types) - {"func", "args", "keywords"}:
            raise SchemaError(f"Partial: {WRITE_PARTIAL}")
        func = given.types["func"]
        if not callable(func):
            raise SchemaError(f"Partial: func={func!r} is not a function; {WRITE_PARTIAL}")
        args = tuple(self._type(arg, scope, place) for arg in given.types.get("args", ()))
        keywords = self._inline("builtins:dict", "keywords", given.types.get("keywords", {}), scope, place)
        return ir.Partial(self._symbol(func), ir.Tuple(args), keywords)

    def _inline(
        self,
        symbol: str,
        kind: ir.StoredKind,
        annotations: Mapping[str, Any],
        scope: _Scope,
        place: "Spot",
        aliases: Mapping[str, str] = MappingProxyType({}),
    ) -> ir.Node:
        """A class described in place. Its id is its content: the same description is the same class."""
        types = {name: self._type(one, scope, place) for name, one in annotations.items()}
        id = inline_id(symbol, types)
        fields = tuple(ir.Field(name, name, aliases.get(name, name), type) for name, type in types.items())
        self._enter(place, ir.Class(id, symbol, kind, (), fields))
        return ir.Node(id, ((EVERY, Name(EVERY)),))

    def _enter(self, place: "Spot", cls: ir.Class) -> None:
        self._inline_places.setdefault(cls.id, place)
        self._raw[cls.id] = cls


def _is_open(type: ir.Type) -> bool:
    return any(node.cls.startswith(ir.VARIABLE) for node in ir.nodes(type))
