"""What a declaration says for earlier checkpoints, checked: aliases, reserved keys, dtypes to cast from, defaults.

The reader and the mypy plugin both call this, so they say the same.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, assert_never

from treaty.schema import ir
from treaty.schema._errors import SchemaError
from treaty.schema.dims import Int
from treaty.schema.modules import symbol_of


def check_cast_from(type: ir.Type, cast_from: Iterable[str]) -> None:
    """`cast_from` speaks of the arrays that the field itself declares, not of those of a class in it."""
    dtypes = {one.dtype for one in ir.every_type(type) if isinstance(one, ir.Array)}
    for dtype in cast_from:
        if not dtypes:
            raise SchemaError(
                f"field(cast_from=...): {ir.describe(type)} has no dtype to cast to; write it on a field that is an array"
            )
        if dtype in dtypes:
            raise SchemaError(f"field(cast_from=...): {dtype} is the dtype that the field has; remove it")


def key_problems(fields: Iterable[ir.Field], reserved: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(field, problem) of keys that would mean two things; the field is "" where the class itself is wrong."""
    fields = tuple(fields)
    keys = {field.key: field.name for field in fields}
    taken: dict[str, str] = {}
    for field in fields:
        for alias in field.aliases:
            if alias in keys:
                whose = "its own key" if keys[alias] == field.name else f"the key of {keys[alias]}"
                yield field.name, f"alias {alias!r} is {whose}; an alias is a key that no field has any more: remove it"
            elif alias in taken:
                yield field.name, f"alias {alias!r} is one of {taken[alias]} too; keep it on one of them"
            taken.setdefault(alias, field.name)
    for key in reserved:
        if key in keys:
            yield (
                keys[key],
                f"key {key!r} is reserved: earlier checkpoints have another thing under it; "
                f"write field(key=...) with another key, or remove it from state(reserved=...)",
            )
        elif key in taken:
            yield (
                taken[key],
                f"alias {key!r} is reserved too, so that it would be read and dropped; keep one of both",
            )


def default_problem(schema: Mapping[str, ir.Class], type: ir.Type, value: Any) -> str | None:
    """What is wrong with a default, as far as a declaration can tell: sizes that have a name may be any."""
    found = _misfit(schema, type, value)
    return None if found is None else f"default {_shown(value)} does not fit: expected {found}"


def _misfit(schema: Mapping[str, ir.Class], type: ir.Type, value: Any) -> str | None:
    """What was expected, or None where the value fits."""
    if isinstance(type, ir.Optional):
        return None if value is None else _misfit(schema, type.item, value)
    if isinstance(type, ir.Array):
        return None if _is_array(type.dtype, type.dims, value) else ir.describe(type)
    if isinstance(type, (ir.Key, ir.NumpyScalar)):
        return None if hasattr(value, "dtype") else ir.describe(type)
    if isinstance(type, ir.Scalar):
        return None if _is_scalar(type.type, value) else type.type
    if isinstance(type, ir.Enum):
        is_member = isinstance(value, enum.Enum) and value.name in type.members
        return None if is_member else f"a member of {type.symbol}"
    if isinstance(type, ir.Sequence):
        expected = tuple if type.immutable else list
        if not isinstance(value, expected):
            return ir.describe(type)
        return next((found for one in value if (found := _misfit(schema, type.item, one))), None)
    if isinstance(type, ir.Tuple):
        if not isinstance(value, tuple) or len(value) != len(type.items):
            return ir.describe(type)
        pairs = zip(type.items, value, strict=True)
        return next((found for part, one in pairs if (found := _misfit(schema, part, one))), None)
    if isinstance(type, ir.Dict):
        if not isinstance(value, dict):
            return ir.describe(type)
        return next((found for one in value.values() if (found := _misfit(schema, type.value, one))), None)
    if isinstance(type, ir.Node):
        cls = schema[type.cls]
        is_dict = cls.kind in ("typeddict", "keywords")
        fits = isinstance(value, dict) if is_dict else symbol_of(value.__class__) == cls.symbol
        return None if fits else f"an instance of {cls.qualname}"
    if isinstance(type, (ir.Partial, ir.Untyped)):
        return None
    assert_never(type)


def _is_array(dtype: str, dims: tuple[Any, ...], value: Any) -> bool:
    shape = getattr(value, "shape", None)
    if shape is None or str(getattr(value, "dtype", "")) != dtype or len(shape) != len(dims):
        return False
    return all(not isinstance(dim.size, Int) or dim.size.value == size for dim, size in zip(dims, shape, strict=True))


def _is_scalar(type: str, value: Any) -> bool:
    if type == "none":
        return value is None
    kinds = {"float": ("float", "int"), "complex": ("complex", "float", "int")}.get(type, (type,))
    return value.__class__.__name__ in kinds and value.__class__.__module__ == "builtins"


def _shown(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{getattr(value, 'dtype', '')}[{', '.join(map(str, shape))}]"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
