"""What a declaration says for earlier checkpoints, checked: aliases, reserved keys, dtypes to cast from, defaults.

The reader and the mypy plugin both call this, so they say the same.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, assert_never

import numpy as np
from attrs import frozen

from treaty.schema import ir
from treaty.schema._errors import SchemaError
from treaty.schema._key_texts import fused
from treaty.schema._spread import spread_problems
from treaty.schema.dims import Dim, Expr, Int
from treaty.schema.dtypes import BY_NAME, JAX_KEYS
from treaty.schema.modules import symbol_of

_Part: TypeAlias = tuple[ir.Type, Any, str | int]  # of a value, with its key

_NARROW: Final = {"float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64"}


def check_cast_from(type: ir.Type, cast_from: Sequence[str]) -> None:
    """`cast_from` speaks of the arrays that the field itself declares, not of those of a class in it.

    One that is widened anyway may be named too: it says that such checkpoints are meant to be read.
    """
    dtypes = {one.dtype for one in ir.every_type(type) if isinstance(one, ir.Array)}
    if cast_from and not dtypes:
        raise SchemaError(
            f"field(cast_from=...): expected a field of arrays, got {ir.describe(type)}; "
            "remove it, or write it on the field that is the array"
        )
    for dtype in dict.fromkeys(cast_from):
        if dtype not in BY_NAME:
            raise SchemaError(f"field(cast_from=...): unknown dtype {dtype!r}; known: {', '.join(BY_NAME)}")
        if dtypes == {dtype}:
            raise SchemaError(f"field(cast_from=...): {dtype!r} is the dtype that the field has; remove it")
        if cast_from.count(dtype) > 1:
            raise SchemaError(f"field(cast_from=...): {dtype!r} stands there twice; write it once")


def key_problems(fields: Iterable[ir.Field], reserved: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(field, problem) of keys that would mean two things. `reserved` is keys, each with the class that reserves it."""
    fields = tuple(fields)
    keys = {field.key: field.name for field in fields}
    taken: dict[str, str] = {}
    for field in fields:
        for alias in field.aliases:
            if alias in keys:
                whose = "its own key" if keys[alias] == field.name else f"the key of {keys[alias]}"
                yield field.name, f"alias {alias!r} is {whose}; an alias is a key that no field has any more: remove it"
            elif alias in taken:
                other = "stands there twice" if taken[alias] == field.name else f"is one of {taken[alias]} too"
                yield field.name, f"alias {alias!r} {other}; write it once"
            elif alias in reserved:
                yield (
                    field.name,
                    f"alias {alias!r} is reserved by {reserved[alias]}, which drops what is stored under it; "
                    f"remove it from one of them",
                )
            taken.setdefault(alias, field.name)
    for key, owner in reserved.items():
        if key in keys:
            yield (
                keys[key],
                f"key {key!r} is reserved by {owner}: earlier checkpoints hold another thing under it; "
                f"write field(key=...) with another",
            )
    yield from spread_problems(fields, reserved)


def default_problem(classes: Mapping[str, ir.Class], field: ir.Field, value: Any) -> str | None:
    """What is wrong with a default, or with what a factory made, as far as a declaration can tell.

    A size that has a name may be any; what stands in a static field is compared as what it is.
    """
    found = _Walker(classes).misfit(field.type, value, ())
    if found is None:
        return None
    what = "factory" if (field.default or "").startswith("factory:") else "default"
    at = f" at ${_shown_path(fused((field.key, *found.path)))}" if found.path else ""
    write = "write X | None as its type, or another default" if value is None else f"write a {what} that fits, or none"
    return f"{what}: expected {found.expected}, got {_shown(found.value)}{at}; {write}"


@frozen
class _DefaultMisfit:
    expected: str
    value: Any
    path: tuple[str | int, ...]


@frozen
class _Walker:
    """Compares values with types, as a restore would; the first that does not fit is enough."""

    classes: Mapping[str, ir.Class]

    def misfit(self, type: ir.Type, value: Any, path: tuple[str | int, ...]) -> _DefaultMisfit | None:
        if isinstance(type, ir.Optional):
            return None if value is None else self.misfit(type.item, value, path)
        if isinstance(type, ir.Node):
            return self._node(self.classes[type.cls], value, path)
        if isinstance(type, ir.Partial):
            return self._partial(type, value, path)
        expected, parts = ir.describe(type), list[_Part]()
        if isinstance(type, ir.Array):
            fits = _is_array(type, value)
        elif isinstance(type, ir.Key):
            fits = _is_key(type, value)
        elif isinstance(type, ir.Fitted):
            fits = _dtype_of(value) == type.dtype
        elif isinstance(type, ir.Scalar):
            fits = _is_scalar(type.type, value)
        elif isinstance(type, ir.NumpyScalar):
            fits = isinstance(value, np.generic) and _dtype_of(value) == type.dtype
        elif isinstance(type, ir.Enum):
            fits = symbol_of(_class_of(value)) == type.symbol
            expected = f"a member of {_short(type.symbol)}"
        elif isinstance(type, ir.Sequence):
            fits = _class_of(value) is (tuple if type.immutable else list) and _has_length(type.length, value)
            parts = [(type.item, one, index) for index, one in enumerate(value)] if fits else []
        elif isinstance(type, ir.Tuple):
            fits = _class_of(value) is tuple and len(value) == len(type.items)
            parts = list(zip(type.items, value, range(len(value)), strict=True)) if fits else []
        elif isinstance(type, ir.Dict):
            key = int if type.key == "int" else str
            fits = isinstance(value, dict) and all(_class_of(one) is key for one in value)
            fits = fits and _has_length(type.length, value)
            parts = [(type.value, one, str(key)) for key, one in value.items()] if fits else []
        elif isinstance(type, ir.Untyped):
            fits = True
        else:
            assert_never(type)
        return self._first(parts, path) if fits else _DefaultMisfit(expected, value, path)

    def _partial(self, type: ir.Partial, value: Any, path: tuple[str | int, ...]) -> _DefaultMisfit | None:
        if symbol_of(getattr(value, "func", None)) != type.func:
            return _DefaultMisfit(f"a Partial of {_short(type.func)}", value, path)
        return self._first([(type.args, value.args, "args"), (type.keywords, value.keywords, "keywords")], path)

    def _node(self, cls: ir.Class, value: Any, path: tuple[str | int, ...]) -> _DefaultMisfit | None:
        if cls.id.startswith(ir.VARIABLE):
            return None  # whoever reads the class with arguments checks
        if cls.kind in ("typeddict", "keywords"):
            if not isinstance(value, dict) or set(value) != {field.name for field in cls.fields}:
                return _DefaultMisfit(f"a dict with the keys of {cls.qualname}", value, path)
            return self._first([(field.type, value[field.name], field.key) for field in cls.fields], path)
        if symbol_of(_class_of(value)) != cls.symbol:
            return _DefaultMisfit(f"an instance of {cls.qualname}", value, path)
        return self._first([(field.type, getattr(value, field.name), field.key) for field in cls.fields], path)

    def _first(self, parts: Iterable[_Part], path: tuple[str | int, ...]) -> _DefaultMisfit | None:
        found = (self.misfit(type, value, (*path, key)) for type, value, key in parts)
        return next((one for one in found if one is not None), None)


def _class_of(value: Any) -> Any:
    """The class of a value, whatever its attributes say: a member of an enum may be called `__class__`."""
    return type(value)


def _is_array(type: ir.Array, value: Any) -> bool:
    return (_dtype_of(value) == type.dtype or _is_narrowed(type, value)) and _has_shape(type.dims, value)


def _is_key(type: ir.Key, value: Any) -> bool:
    impl = JAX_KEYS.get(_dtype_of(value))
    return impl is not None and type.impl in (None, impl) and _has_shape(type.dims, value)


def _is_scalar(type: str, value: Any) -> bool:
    """Whether a Python value is of this very type; an int stands for a float, and a float for a complex."""
    cls = _class_of(value)
    if type in ("float", "complex") and cls is int:
        return bool(abs(value) < 1 << 1023 and float(value) == value)
    if type == "none":
        return value is None
    is_wider = type == "complex" and cls is float
    return is_wider or bool(cls.__module__ == "builtins" and cls.__name__ == type)


def _has_length(length: Expr | None, value: Any) -> bool:
    return not isinstance(length, Int) or length.value == len(value)


def _dtype_of(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return str(getattr(dtype, "name", ""))


def _is_narrowed(type: ir.Array, value: Any) -> bool:
    """Whether JAX made 32 bits of 64: it may be told to keep them where the program runs, and not here."""
    jax = sys.modules.get("jax")
    if jax is None or not isinstance(value, jax.Array) or jax.config.jax_enable_x64:
        return False
    return _dtype_of(value) == _NARROW.get(type.dtype)


def _has_shape(dims: tuple[Dim, ...], value: Any) -> bool:
    """Whether the rank is right, sizes that are given are met, and one expression has one size."""
    shape = getattr(value, "shape", ())
    if len(shape) != len(dims):
        return False
    known: dict[Expr, int] = {}
    for dim, size in zip(dims, shape, strict=True):
        expected = dim.size.value if isinstance(dim.size, Int) else known.setdefault(dim.size, size)
        if expected != size:
            return False
    return True


def _shown(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None and _dtype_of(value):
        return f"{_dtype_of(value)}[{', '.join(map(str, shape))}]"
    cls = _class_of(value)
    if cls.__module__ != "builtins":
        return f"an instance of {cls.__qualname__}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _shown_path(path: Iterable[str | int]) -> str:
    return "".join(f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]" for key in path)


def _short(symbol: str) -> str:
    return symbol.rpartition(":")[2].rpartition(".")[2]
