"""Classes as they are declared: their kind, their fields, their type arguments, and where they stand."""

import dataclasses
import enum
import inspect
import os
import sys
import typing
from collections.abc import Mapping
from typing import Any, Final, TypeVar, assert_never

import attrs

from treaty.schema import ir
from treaty.schema._declare import FieldOptions, options_of, state_options
from treaty.schema._default_texts import factory_text, text_of
from treaty.schema._errors import SchemaError
from treaty.schema._leaves import CIRCLE, RESOLVE, show
from treaty.schema.dims import spelled
from treaty.schema.from_init.notes import from_init
from treaty.schema.modules import symbol_of

_FACTORY: Any = type(attrs.Factory(list))  # to mypy, Factory is a function
_Scope = Mapping[Any, Any]  # TypeVar -> the annotation it stands for


@attrs.frozen
class Spot:
    """Where a problem is: file, class and field."""

    cls: Any
    field: str = ""

    def __str__(self) -> str:
        try:
            file = inspect.getsourcefile(self.cls) or self.cls.__module__
            line = inspect.getsourcelines(self.cls)[1]
            where = f"{relative(file)}:{line}"
        except (OSError, TypeError):
            where = str(self.cls.__module__)
        name = f"{self.cls.__qualname__}.{self.field}" if self.field else self.cls.__qualname__
        return f"{where}: {name}"


def class_kind(cls: Any) -> ir.DeclaredKind | None:
    if state_options(cls) is not None:
        return "state"
    if attrs.has(cls):
        return "attrs"
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return "namedtuple"
    return "typeddict" if typing.is_typeddict(cls) else None


def declared(cls: Any, kind: ir.DeclaredKind) -> list[tuple[str, str, Any, str | None]]:
    """(name, constructor name, options, default) of each field, in order."""
    match kind:
        case "state" | "attrs":
            return [_declared_attribute(cls, attribute) for attribute in attrs.fields(cls)]
        case "namedtuple":
            defaults = cls._field_defaults
            return [(name, name, FieldOptions(), _default(defaults.get(name, attrs.NOTHING))) for name in cls._fields]
        case "typeddict":
            if optional := sorted(cls.__optional_keys__):
                raise SchemaError(f"{Spot(cls, optional[0])}: a key that may be absent; write it as X | None")
            return [(name, name, FieldOptions(), None) for name in cls.__annotations__]
        case _:
            assert_never(kind)


NO_INIT: Final = (
    "a field with init=False cannot be restored; remove init=False, and give the field a default if it needs one"
)


def _declared_attribute(cls: Any, attribute: "attrs.Attribute[Any]") -> tuple[str, str, Any, str | None]:
    if not attribute.init:
        raise SchemaError(f"{Spot(cls, attribute.name)}: {NO_INIT}")
    return attribute.name, attribute.alias or "", options_of(attribute), _default(attribute.default)


def _default(value: Any) -> str | None:
    if value is attrs.NOTHING:
        return None
    if isinstance(value, _FACTORY):
        return factory_text(value.factory, value.takes_self)
    if isinstance(value, enum.Enum):
        return f"{symbol_of(type(value))}.{value.name}"
    return text_of(value)


def default_value(cls: Any, kind: ir.DeclaredKind, name: str, *, call: bool) -> Any:
    """The default of a field, or what its factory makes if it may be called; attrs.NOTHING where that is not known."""
    converter = None
    match kind:
        case "state" | "attrs":
            attribute = attrs.fields_dict(cls)[name]
            value, converter = attribute.default, attribute.converter
        case "namedtuple":
            value = cls._field_defaults.get(name, attrs.NOTHING)
        case "typeddict":
            value = attrs.NOTHING
        case _:
            assert_never(kind)
    if value is attrs.NOTHING or (converter is None and not isinstance(value, _FACTORY)):
        return value
    if not call or getattr(value, "takes_self", False) or isinstance(converter, attrs.Converter):
        return attrs.NOTHING
    what = "factory"
    try:
        made = value.factory() if isinstance(value, _FACTORY) else value
        what = "converter"
        return made if converter is None else converter(made)
    except (Exception, SystemExit) as error:  # it is user code: it can raise anything
        said = f"{type(error).__name__}: {one_line(error)}"
        raise SchemaError(f"{what}: it raises {said}; write one that works wherever treaty generate runs") from None


def reserved_keys(cls: Any) -> dict[str, str]:
    """Those of a class and of the classes that it inherits its fields from, each with the class that says so."""
    options = ((base.__name__, state_options(base)) for base in reversed(cls.__mro__))
    return {key: name for name, one in options if one is not None for key in one.reserved}


def check_name(name: str, kind: ir.DeclaredKind) -> None:
    """attrs and NamedTuple refuse keywords themselves; type checkers and attrs disagree on how `_x` is passed."""
    if kind == "state" and name.startswith("_"):
        raise SchemaError(f"{name!r} starts with an underscore; rename it and write field(key={name!r})")
    if kind != "typeddict" and spelled(name) != name:
        raise SchemaError(
            f"{name!r} is {spelled(name)!r} to Python; name it so, and keep the key with field(key={name!r})"
        )


def constructor_names(cls: type) -> list[str]:
    """The fields of a class we do not own: what it is built from by keyword and read from by attribute."""
    if hasattr(cls, "_fields") and issubclass(cls, tuple):
        return list(getattr(cls, "_fields"))  # noqa: B009 - mypy does not know it of tuple
    if attrs.has(cls):
        return [attribute.name for attribute in attrs.fields(cls)]
    if dataclasses.is_dataclass(cls):
        return [one.name for one in dataclasses.fields(cls) if one.init or has_own_init(cls)]
    raise SchemaError(f"Fields(...): expected a NamedTuple, dataclass or attrs class, got {cls.__name__}")


def has_own_init(cls: Any) -> bool:
    """Whether a dataclass or attrs class has an `__init__` that somebody wrote: it need not take the fields."""
    init = cls.__dict__.get("__init__")
    code = getattr(getattr(init, "__wrapped__", init), "__code__", None)
    generated = "<attrs generated" if attrs.has(cls) else "<string>"  # what attrs and dataclasses call their source
    return code is None or not code.co_filename.startswith(generated)


def bind(cls: Any, args: tuple[Any, ...], scope: _Scope) -> dict[Any, Any]:
    """What each type variable of `cls` and its generic bases stands for."""
    parameters = getattr(cls, "__parameters__", ())
    bound = {variable: _substitute(arg, scope) for variable, arg in zip(parameters, args, strict=False)}
    for base in getattr(cls, "__orig_bases__", ()):
        origin, base_args = typing.get_origin(base), typing.get_args(base)
        if isinstance(origin, type) and origin is not typing.Generic and base_args:
            bound = {**bind(origin, base_args, bound), **bound}
    return bound


def _substitute(annotation: Any, scope: _Scope) -> Any:
    """The annotation with the type variables in scope filled in."""
    if isinstance(annotation, TypeVar):
        return scope.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    if parameters and not isinstance(annotation, type):
        return annotation[tuple(scope.get(variable, variable) for variable in parameters)]
    return annotation


def evaluate(annotation: Any, cls: Any) -> Any:
    text = annotation.__forward_arg__ if isinstance(annotation, typing.ForwardRef) else annotation
    names = {**vars(sys.modules[cls.__module__]), cls.__name__: cls}
    try:
        return eval(text, names)  # the same trust as importing the module that wrote the annotation
    except Exception as error:
        raise SchemaError(_unresolved(text, error, cls)) from None


def resolve(cls: Any) -> dict[str, Any]:
    """The annotations of a class and its bases, strings evaluated. Raises SchemaError with every field that fails."""
    names = {cls.__name__: cls}
    try:
        return typing.get_type_hints(cls, localns=names, include_extras=True)
    except Exception as error:  # annotations are user code: evaluating them can raise anything
        whole = error
    problems, hints = list[str](), dict[str, Any]()
    for base in reversed(cls.__mro__):
        for field, annotation in inspect.get_annotations(base).items():
            alone = type(base.__name__, (), {"__annotations__": {field: annotation}, "__module__": base.__module__})
            try:
                hints |= typing.get_type_hints(alone, localns=names, include_extras=True)
            except Exception as error:
                if (made := _made_by_init(annotation, base)) is None:
                    problems.append(f"{Spot(cls, field)}: {_unresolved(annotation, error, base)}")
                else:
                    hints[field] = made
    if problems or not hints:
        raise SchemaError(*problems or [f"{Spot(cls)}: {_unresolved(cls, whole, cls)}"])
    return hints


def _made_by_init(annotation: Any, cls: Any) -> Any:
    """An annotation with FromInit whose type cannot be resolved, as optax.OptState, which uses names of its own module: it need not be."""
    try:
        found = evaluate(annotation, cls) if isinstance(annotation, (str, typing.ForwardRef)) else annotation
    except SchemaError:
        return None
    return None if (marker := from_init(found)) is None else typing.Annotated[Any, marker]


def _unresolved(annotation: Any, error: Exception, cls: Any) -> str:
    try:
        checked_only = isinstance(error, NameError) and "TYPE_CHECKING" in inspect.getsource(
            sys.modules[cls.__module__]
        )
    except (OSError, TypeError, KeyError):
        checked_only = False
    text = repr(annotation) if isinstance(annotation, str) else show(annotation)
    return f"cannot resolve {text}: {one_line(error)}; {RESOLVE}{CIRCLE if checked_only else ''}"


def one_line(error: BaseException) -> str:
    """What an error says, without its line breaks."""
    return " ".join(str(error).split())


def relative(file: str | os.PathLike[str]) -> str:
    """A file as people write it: relative to here where it is below here."""
    relative = os.path.relpath(file)
    return str(file) if relative.startswith("..") else relative
