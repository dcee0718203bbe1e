"""Declarations -> IR: reads annotations of attrs classes, NamedTuples and TypedDicts.

Classes are read first, with ties as written; dims are settled after, when every class is known.
"""

import dataclasses
import enum
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import attrs
import jaxtyping
import numpy as np

from treaty.schema import dtypes, ir
from treaty.schema._declare import ArraySpec, Dims, FieldOptions, Fields, Length, options_of, version_of
from treaty.schema._errors import SchemaError
from treaty.schema._settle import settle
from treaty.schema.dims import Expr, Name, parse_dims
from treaty.schema.modules import symbol_of

_SCALARS: Final[Mapping[Any, str]] = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    bytes: "bytes",
    complex: "complex",
    type(None): "none",
    None: "none",
}
_TYPE_ALIAS: Final[Any] = getattr(typing, "TypeAliasType", ())  # `type X = ...`, from Python 3.12 on
_UNIONS: Final = (typing.Union, types.UnionType)
_ALL: Final = "..."  # in ties while reading: tie every dim of the child to its namesake here

_Scope = Mapping[Any, Any]  # TypeVar -> the annotation it stands for


def schema_of(cls: Any) -> ir.Schema:
    """The schema of a state class, a plain attrs class, a NamedTuple, a TypedDict, or a generic alias of one."""
    reader = Reader()
    root = reader.root(cls)
    return ir.Schema(root, reader.classes()).at(root)


class Reader:
    """Reads any number of roots into one table of classes."""

    def __init__(self) -> None:
        self._raw: dict[str, ir.Class] = {}
        self._problems: list[str] = []
        self.objects: dict[str, Any] = {}  # by symbol: every class and function that the IR names

    def root(self, annotation: Any) -> str:
        """Read a class (and all it reaches); its id in the table."""
        origin = typing.get_origin(annotation) or annotation
        if not isinstance(origin, type) or _class_kind(origin) is None:
            name = getattr(annotation, "__qualname__", repr(annotation))
            self._problems.append(f"{name}: expected a class declared with @state (or an attrs class); {_WRITE_STATE}")
            return ""
        return self._class(origin, typing.get_args(annotation), {}).cls

    def classes(self) -> tuple[ir.Class, ...]:
        """All classes read, dims settled. Raises SchemaError with every problem of every class."""
        if self._problems:
            raise SchemaError(*self._problems)
        return settle(self._raw, _ALL, lambda id: str(_Place(self.objects.get(self._raw[id].symbol))))

    def _symbol(self, value: Any) -> str:
        symbol = symbol_of(value)
        self.objects[symbol] = value
        return symbol

    def _class(self, cls: Any, args: tuple[Any, ...], scope: _Scope) -> ir.Node:
        inner = _bind(cls, args, scope)
        parameters = getattr(cls, "__parameters__", ())
        read_args = tuple(self._type(variable, inner, _Place(cls)) for variable in parameters)
        symbol = self._symbol(cls)
        id = f"{symbol}[{', '.join(map(_describe_argument, read_args))}]" if args else symbol
        if id not in self._raw:
            kind = _class_kind(cls) or ""
            self._raw[id] = ir.Class(id, symbol, kind, (), (), version_of(cls) or 1, read_args)
            fields = self._fields(cls, kind, inner)
            self._raw[id] = attrs.evolve(self._raw[id], fields=fields)
        return ir.Node(id)

    def _fields(self, cls: Any, kind: str, scope: _Scope) -> tuple[ir.Field, ...]:
        try:
            hints = typing.get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)
        except Exception as error:  # annotations are user code: evaluating them can raise anything
            self._problems.append(f"{_Place(cls)}: cannot resolve the annotations: {error}; {_RESOLVE}")
            return ()
        fields: list[ir.Field] = []
        keys: dict[str, str] = {}
        for name, alias, options, default in _declared(cls, kind):
            place = _Place(cls, name)
            try:
                if name not in hints:
                    raise SchemaError(f"no annotation; write {name}: Float32[Array, 'd'] or another type")
                _check_name(name, kind)
                key = name if options.key is None else options.key
                if key in keys:
                    raise SchemaError(f"key {key!r} is already the key of {keys[key]}; keys must differ")
                keys[key] = name
                type = self._type(hints[name], scope, place)
                if options.static:
                    _check_static(type)
                fields.append(ir.Field(key, name, alias, type, options.static, default))
            except SchemaError as error:
                self._problems += [f"{place}: {problem}" for problem in error.problems]
        return tuple(fields)

    def _type(self, annotation: Any, scope: _Scope, place: "_Place") -> ir.Type:
        """One annotation. Every branch is one row of the schema language in the docs."""
        if isinstance(annotation, TypeVar):
            return self._type_variable(annotation, scope, place)
        if isinstance(annotation, (str, typing.ForwardRef)):
            return self._type(_evaluate(annotation, place.cls), scope, place)
        if typing.get_origin(annotation) is typing.Annotated:
            return self._annotated(annotation, scope, place)
        if isinstance(annotation, _TYPE_ALIAS):
            return self._type(annotation.__value__, scope, place)
        if typing.get_origin(annotation) is typing.Required:
            return self._type(typing.get_args(annotation)[0], scope, place)
        if isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray):
            return _array(annotation)
        if annotation in (Any, object) or _is_pytree(annotation):
            return ir.Untyped()
        if _hashable(annotation) and annotation in _SCALARS:
            return ir.Scalar(_SCALARS[annotation])
        if isinstance(annotation, type) and issubclass(annotation, np.generic):
            return ir.NumpyScalar(_numpy_scalar(annotation))
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            if issubclass(annotation, enum.Flag) or not annotation.__members__:
                raise SchemaError(
                    f"cannot store {_show(annotation)}: a member has no one name; write an Enum with members, or int"
                )
            return ir.Enum(self._symbol(annotation), tuple(annotation.__members__))
        return self._container(annotation, scope, place)

    def _container(self, annotation: Any, scope: _Scope, place: "_Place") -> ir.Type:
        origin, args = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in _UNIONS:
            inner = [arg for arg in args if arg is not type(None)]
            if len(inner) != 1 or len(args) != 2:
                raise SchemaError(f"union {_show(annotation)}: {_UNION}")
            return ir.Optional(self._type(inner[0], scope, place))
        if annotation in (typing.List, typing.Tuple, typing.Dict):  # noqa: UP006 - what people wrote
            raise SchemaError(_refuse(origin))
        if origin is list:
            return ir.Sequence(self._type(args[0], scope, place), immutable=False)
        if origin is tuple:
            if len(args) == 2 and args[1] is Ellipsis:
                return ir.Sequence(self._type(args[0], scope, place), immutable=True)
            return ir.Tuple(tuple(self._type(arg, scope, place) for arg in args if arg != ()))
        if origin is dict:
            if args[0] not in (str, int):
                raise SchemaError(f"{_show(annotation)}: expected dict[str, X] or dict[int, X]")
            return ir.Dict(_SCALARS[args[0]], self._type(args[1], scope, place))
        cls = origin or annotation
        if isinstance(cls, type) and _class_kind(cls) is not None:
            return self._class(cls, args, scope)
        raise SchemaError(_refuse(annotation))

    def _type_variable(self, variable: Any, scope: _Scope, place: "_Place") -> ir.Type:
        """What the variable stands for; its dims become this class's, so that mu and nu of one P agree."""
        if variable in scope:
            return _open(self._type(scope[variable], {}, place))
        default = getattr(variable, "__default__", None)
        if default is None or default is getattr(typing, "NoDefault", None):
            default = variable.__bound__
        return ir.Untyped() if default is None else _open(self._type(default, {}, place))

    def _annotated(self, annotation: Any, scope: _Scope, place: "_Place") -> ir.Type:
        base, *notes = typing.get_args(annotation)
        spec = next((note for note in notes if isinstance(note, ArraySpec)), None)
        fields = next((note for note in notes if isinstance(note, Fields)), None)
        if spec is not None:
            type = _array_of(base, spec.dtype, spec.dims)
        elif fields is not None:
            type = self._foreign(base, fields, scope, place)
        else:
            type = self._type(base, scope, place)
        for note in notes:
            if isinstance(note, Dims):
                type = _tie(type, note)
            elif isinstance(note, Length):
                type = _with_length(type, note.size)
            elif inspect.isclass(note) and issubclass(note, (Dims, Length, ArraySpec, Fields)):
                raise SchemaError(f"Annotated[..., {note.__name__}]: write {note.__name__}(...) with its arguments")
        return type

    def _foreign(self, cls: Any, given: Fields, scope: _Scope, place: "_Place") -> ir.Type:
        """A class of another library, its field types given in place and in the owner's scope of dims."""
        if _is_partial(cls):
            return self._partial(given, scope, place)
        origin = typing.get_origin(cls) or cls
        if not isinstance(origin, type):
            raise SchemaError(f"Annotated[{_show(cls)}, Fields(...)]: expected a class")
        expected = _constructor_names(origin)
        for name in given.types:
            if name not in expected:
                raise SchemaError(f"Fields({name}=...): {origin.__name__} has {', '.join(expected) or 'no fields'}")
        if missing := [name for name in expected if name not in given.types]:
            raise SchemaError(f"Fields(...): no type for {', '.join(missing)} of {origin.__name__}")
        types = {name: given.types[name] for name in expected}
        aliases = {one.name: str(one.alias) for one in attrs.fields(origin)} if attrs.has(origin) else {}
        return self._inline(self._symbol(origin), "foreign", types, scope, place, aliases)

    def _partial(self, given: Fields, scope: _Scope, place: "_Place") -> ir.Type:
        if "func" not in given.types or set(given.types) - {"func", "args", "keywords"}:
            raise SchemaError(f"Partial: {_WRITE_PARTIAL}")
        func = given.types["func"]
        if not callable(func):
            raise SchemaError(f"Partial: func={func!r} is not a function; {_WRITE_PARTIAL}")
        args = tuple(self._type(arg, scope, place) for arg in given.types.get("args", ()))
        keywords = self._inline("builtins:dict", "keywords", given.types.get("keywords", {}), scope, place)
        return ir.Partial(self._symbol(func), ir.Tuple(args), keywords)

    def _inline(
        self,
        symbol: str,
        kind: str,
        annotations: Mapping[str, Any],
        scope: _Scope,
        place: "_Place",
        aliases: Mapping[str, str] = MappingProxyType({}),
    ) -> ir.Node:
        """A class described in place. Its id is its content: the same description is the same class."""
        types = {name: self._type(one, scope, place) for name, one in annotations.items()}
        id = f"{symbol}({', '.join(f'{name}: {_describe_argument(type)}' for name, type in types.items())})"
        fields = tuple(ir.Field(name, name, aliases.get(name, name), type) for name, type in types.items())
        self._raw[id] = ir.Class(id, symbol, kind, (), fields)
        return ir.Node(id, ((_ALL, Name(_ALL)),))


@attrs.frozen
class _Place:
    """Where a problem is: file, class and field."""

    cls: Any
    field: str = ""

    def __str__(self) -> str:
        if self.cls is None or isinstance(self.cls, dict):
            return "fields given in place"
        try:
            file = inspect.getsourcefile(self.cls) or self.cls.__module__
            line = inspect.getsourcelines(self.cls)[1]
            where = f"{relative(file)}:{line}"
        except (OSError, TypeError):
            where = str(self.cls.__module__)
        name = f"{self.cls.__qualname__}.{self.field}" if self.field else self.cls.__qualname__
        return f"{where}: {name}"


def _class_kind(cls: Any) -> str | None:
    if version_of(cls) is not None:
        return "state"
    if attrs.has(cls):
        return "attrs"
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return "namedtuple"
    return "typeddict" if typing.is_typeddict(cls) else None


def _declared(cls: Any, kind: str) -> list[tuple[str, str, Any, str | None]]:
    """(name, constructor name, options, default) of each field, in order."""
    if kind in ("state", "attrs"):
        found = []
        for attribute in attrs.fields(cls):
            if not attribute.init:
                raise SchemaError(
                    f"{_Place(cls, attribute.name)}: init=False cannot be restored; drop it, or give the field a default"
                )
            found.append((attribute.name, attribute.alias or "", options_of(attribute), _default(attribute.default)))
        return found
    if kind == "namedtuple":
        defaults = cls._field_defaults
        return [(name, name, FieldOptions(), _default(defaults.get(name, attrs.NOTHING))) for name in cls._fields]
    optional = sorted(cls.__optional_keys__)
    if optional:
        raise SchemaError(f"{_Place(cls, optional[0])}: a key that may be absent; write it as X | None")
    return [(name, name, FieldOptions(), None) for name in cls.__annotations__]


def _default(value: Any) -> str | None:
    if value is attrs.NOTHING:
        return None
    if isinstance(value, attrs.Factory):  # type: ignore[arg-type]
        return f"factory:{symbol_of(value.factory)}"
    if isinstance(value, enum.Enum):
        return f"{symbol_of(type(value))}.{value.name}"
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    return f"value:{type(value).__qualname__}"


def _check_name(name: str, kind: str) -> None:
    """attrs and NamedTuple refuse keywords themselves; type checkers and attrs disagree on how `_x` is passed."""
    if kind == "state" and name.startswith("_"):
        raise SchemaError(f"{name!r} starts with an underscore; rename it and write field(key={name!r})")


def _check_static(type: ir.Type) -> None:
    """Static values are compared and hashed by JAX, so they must be plain values."""
    inner = type.item if isinstance(type, ir.Optional) else type
    if isinstance(inner, ir.Tuple):
        for item in inner.items:
            _check_static(item)
    elif isinstance(inner, ir.Sequence) and inner.immutable:
        _check_static(inner.item)
    elif not isinstance(inner, (ir.Scalar, ir.Enum, ir.NumpyScalar)):
        raise SchemaError(
            f"a static field must be hashable, got {ir.describe(type)}; "
            "expected a Python scalar, str, enum, or a tuple of them"
        )


def _array(annotation: Any) -> ir.Type:
    dims = parse_dims(annotation.dim_str)
    names = annotation.dtypes
    if names == ("prng_key",):
        return _array_of(annotation.array_type, "key", dims)
    spelled = [name for name in names if name in dtypes.BY_NAME] if isinstance(names, (tuple, list)) else []
    if len(spelled) != 1:
        name = annotation.__name__.partition("[")[0]
        raise SchemaError(f"{name}[...]: a stored array has one dtype; write Float32[...], BFloat16[...], …")
    return _array_of(annotation.array_type, spelled[0], dims)


def _array_of(array_type: Any, dtype: str, dims: tuple[Any, ...]) -> ir.Type:
    jax = sys.modules.get("jax")
    host = array_type is np.ndarray or typing.get_origin(array_type) is np.ndarray
    if not host and (jax is None or array_type is not jax.Array):
        raise SchemaError(f"array type {_show(array_type)}: expected jax.Array or np.ndarray")
    impl = dtypes.key_impl(dtype)
    if impl is not None or dtype == "key":
        if host:
            raise SchemaError(f"{dtype}: PRNG keys are jax arrays; write Array, not np.ndarray")
        return ir.Key(dims, impl)
    return ir.Array(dtype, dims, host)


def _numpy_scalar(cls: type) -> str:
    try:
        name = np.dtype(cls).name
    except TypeError:
        name = ""
    if name not in dtypes.BY_NAME:
        raise SchemaError(f"{cls.__name__}: expected one numpy scalar type, such as np.float32")
    return name


def _bind(cls: Any, args: tuple[Any, ...], scope: _Scope) -> dict[Any, Any]:
    """What each type variable of `cls` and its generic bases stands for."""
    parameters = getattr(cls, "__parameters__", ())
    if args and len(args) != len(parameters):  # pragma: no cover - typing refuses this at the subscript
        raise SchemaError(f"{cls.__name__}: expected {len(parameters)} type arguments, got {len(args)}")
    bound = {variable: _substitute(arg, scope) for variable, arg in zip(parameters, args, strict=False)}
    for base in getattr(cls, "__orig_bases__", ()):
        origin, base_args = typing.get_origin(base), typing.get_args(base)
        if isinstance(origin, type) and origin is not typing.Generic and base_args:
            bound = {**_bind(origin, base_args, bound), **bound}
    return bound


def _substitute(annotation: Any, scope: _Scope) -> Any:
    """The annotation with the type variables in scope filled in."""
    if isinstance(annotation, TypeVar):
        return scope.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    if parameters and not isinstance(annotation, type):
        return annotation[tuple(scope.get(variable, variable) for variable in parameters)]
    return annotation


def _rebuild(type: ir.Type, change: Callable[[ir.Node], ir.Node]) -> ir.Type:
    if isinstance(type, ir.Node):
        return change(type)
    if isinstance(type, (ir.Sequence, ir.Optional)):
        return attrs.evolve(type, item=_rebuild(type.item, change))
    if isinstance(type, ir.Tuple):
        return ir.Tuple(tuple(_rebuild(item, change) for item in type.items))
    if isinstance(type, ir.Dict):
        return attrs.evolve(type, value=_rebuild(type.value, change))
    if isinstance(type, ir.Partial):
        args = ir.Tuple(tuple(_rebuild(item, change) for item in type.args.items))
        return attrs.evolve(type, args=args, keywords=change(type.keywords))
    return type


def _open(type: ir.Type) -> ir.Type:
    return _rebuild(type, lambda node: _with_ties(node, {_ALL: Name(_ALL)}))


def _tie(type: ir.Type, dims: Dims) -> ir.Type:
    if not list(ir.nodes(type)):
        raise SchemaError(f"{dims!r}: only a class has dims to tie, not {ir.describe(type)}")
    ties = dict(dims.ties)
    if dims.every:
        ties[_ALL] = Name(_ALL)
    return _rebuild(type, lambda node: _with_ties(node, ties))


def _with_ties(node: ir.Node, ties: Mapping[str, Expr]) -> ir.Node:
    """Ties given nearer to the class win over those given further out."""
    return ir.Node(node.cls, tuple(sorted({**ties, **dict(node.ties)}.items())))


def _with_length(type: ir.Type, size: Expr) -> ir.Type:
    if isinstance(type, ir.Optional):
        return ir.Optional(_with_length(type.item, size))
    if isinstance(type, (ir.Sequence, ir.Dict)):
        return attrs.evolve(type, length=size)
    raise SchemaError(f"Length({str(size)!r}): expected list[X], tuple[X, ...] or dict[K, X], got {ir.describe(type)}")


def _describe_argument(type: ir.Type) -> str:
    """A type argument in a class id: its ties as written, without the mark of being open."""
    return ir.describe(_rebuild(type, lambda node: ir.Node(node.cls, tuple(t for t in node.ties if t[0] != _ALL))))


def _constructor_names(cls: type) -> list[str]:
    """The fields of a class we do not own: what it is built from by keyword and read from by attribute."""
    if hasattr(cls, "_fields") and issubclass(cls, tuple):
        return list(getattr(cls, "_fields"))  # noqa: B009 - mypy does not know it of tuple
    if attrs.has(cls):
        return [attribute.name for attribute in attrs.fields(cls)]
    if dataclasses.is_dataclass(cls):
        return [one.name for one in dataclasses.fields(cls) if one.init]
    raise SchemaError(f"Fields(...): expected a NamedTuple, dataclass or attrs class, got {cls.__name__}")


def _evaluate(annotation: Any, cls: Any) -> Any:
    text = annotation.__forward_arg__ if isinstance(annotation, typing.ForwardRef) else annotation
    names = {**vars(sys.modules[cls.__module__]), cls.__name__: cls}
    try:
        return eval(text, names)  # the same trust as importing the module that wrote the annotation
    except Exception as error:
        raise SchemaError(f"cannot resolve {text!r}: {error}; {_RESOLVE}") from None


def _is_partial(cls: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and cls is jax.tree_util.Partial


def _is_pytree(annotation: Any) -> bool:
    # Asking jaxtyping for PyTree imports jax: only worth it where an annotation may be one, and then jax is here.
    return isinstance(annotation, type) and "jax" in sys.modules and issubclass(annotation, jaxtyping.PyTree)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def relative(file: str) -> str:
    """A file as people write it: relative to here where it is below here."""
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative


def _show(annotation: Any) -> str:
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__.rpartition(".")[2]  # jax.Array's name has its module in it
    return str(annotation)


def _refuse(annotation: Any) -> str:
    jax = sys.modules.get("jax")
    if annotation is np.ndarray or (jax is not None and annotation is jax.Array):
        return f"{_show(annotation)} has no dtype and shape; write Float32[{_show(annotation)}, 'd_in d_out']"
    if _is_partial(annotation):
        return _WRITE_PARTIAL
    if annotation in (list, tuple, dict):
        return f"{_show(annotation)} has no item type; write {_show(annotation)}[...], or Any for an unchecked subtree"
    return f"cannot store {_show(annotation)}; {_CAN_STORE}"


_WRITE_STATE: Final = "write @state above the class"
_WRITE_PARTIAL: Final = (
    "write Annotated[Partial, Fields(func=the_function, args=(Float32[Array, 'd'],), keywords={'scale': float})]"
)
_RESOLVE: Final = "names in annotations must be importable from the class's module when the code runs"
_UNION: Final = "a union cannot be restored without knowing which; write X | None, or one class with optional fields"
_CAN_STORE: Final = (
    "expected an array (Float32[Array, 'a b']), a Python or numpy scalar, an enum, a state class, "
    "list, tuple, dict[str, X], X | None, or Any for an unchecked subtree"
)
