"""The array leaves of a state, each with its declared type and the names of its axes, found by walking schema and state."""

from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from attrs import evolve, frozen

from treaty.schema import Schema, ir
from treaty.schema._key_texts import key_text
from treaty.schema.dims import Dim, Expr, Int, Name

Keys = tuple[str, ...]
_Names = Mapping[str, tuple[str, ...]]  # dim of a class -> what the owners call it, from the inside out


@frozen
class Declared:
    """The declaration of one array leaf. `axes` holds, per axis, every name it goes by, its own first."""

    type: ir.Array | ir.Key
    axes: tuple[tuple[str, ...], ...]
    cast_from: tuple[str, ...] = ()  # stored dtypes that its field converts

    @property
    def on_host(self) -> bool:
        return isinstance(self.type, ir.Array) and self.type.host


def declared_arrays(schema: Schema, state: Any) -> dict[Keys, Declared]:
    """By path in the state dict; the words of a PRNG key are at its `data`. Untyped subtrees have none."""
    return dict(_in_class(schema, schema.root_class, state, {}, ()))


def as_state(schema: Schema, value: Any) -> Any:
    """An instance in state-dict form, its leaves as they are, whatever stands there in place of arrays."""
    return _class_state(schema, schema.root_class, value)


def _in_class(schema: Schema, cls: ir.Class, state: Any, names: _Names, path: Keys) -> Iterator[tuple[Keys, Declared]]:
    for field in cls.fields:
        entries = ir.entries(schema, field, state).items()
        found = (one for key, type in entries for one in _in_type(schema, type, state[key], names, (*path, key)))
        yield from _castable(field, found) if field.cast_from else found


def _in_type(schema: Schema, type: ir.Type, state: Any, names: _Names, path: Keys) -> Iterator[tuple[Keys, Declared]]:
    if isinstance(type, ir.Optional):
        type = ir.Untyped() if state is None else type.item
    if isinstance(type, ir.Array):
        yield path, Declared(type, tuple(_called(dim, names) for dim in type.dims))
    elif isinstance(type, ir.Fitted):  # which of its axes is which dim, only init knows
        yield path, Declared(ir.Array(type.dtype, ()), ((),) * len(getattr(state, "shape", ())))
    elif isinstance(type, ir.Key):
        yield (*path, "data"), Declared(type, (*(_called(dim, names) for dim in type.dims), ()))
    elif isinstance(type, ir.Node):
        below = {name: _also_called(size, names) for name, size in type.ties}
        yield from _in_class(schema, schema[type.cls], state, below, path)
    elif isinstance(type, (ir.Sequence, ir.Dict)):
        item = type.item if isinstance(type, ir.Sequence) else type.value
        for key, one in state.items():
            yield from _in_type(schema, item, one, names, (*path, key))
    elif isinstance(type, ir.Tuple):
        for index, item in enumerate(type.items):
            yield from _in_type(schema, item, state[str(index)], names, (*path, str(index)))
    elif isinstance(type, ir.Partial):
        yield from _in_type(schema, type.args, state["args"], names, (*path, "args"))
        yield from _in_type(schema, type.keywords, state["keywords"], names, (*path, "keywords"))
    elif isinstance(type, (ir.Scalar, ir.NumpyScalar, ir.Enum, ir.Untyped, ir.Optional)):
        return
    else:
        assert_never(type)


def _castable(field: ir.Field, found: Iterator[tuple[Keys, Declared]]) -> Iterator[tuple[Keys, Declared]]:
    """With what a field says of its own arrays; those of a class in it have fields of their own."""
    own = [id(type) for type in ir.every_type(field.type) if isinstance(type, ir.Array)]
    for path, one in found:
        yield path, evolve(one, cast_from=field.cast_from) if id(one.type) in own else one


def _called(dim: Dim, names: _Names) -> tuple[str, ...]:
    own = () if dim.label is None else (dim.label, *names.get(dim.label, ()))
    return (*own, *_also_called(dim.size, names))


def _also_called(size: Expr, names: _Names) -> tuple[str, ...]:
    """`d_model` by its name here and above; `4*d_model` by that text."""
    if isinstance(size, Int):
        return ()
    return (size.name, *names.get(size.name, ())) if isinstance(size, Name) else (str(size),)


def _class_state(schema: Schema, cls: ir.Class, value: Any) -> dict[str, Any]:
    by_item = cls.kind in ("typeddict", "keywords")
    found: dict[str, Any] = {}
    for field in cls.fields:
        if not field.static:
            one = _type_state(schema, field.type, value[field.name] if by_item else getattr(value, field.name))
            found |= key_text(field.key).spread(one) if field.spread else {field.key: one}
    return found


def _type_state(schema: Schema, type: ir.Type, value: Any) -> Any:
    if isinstance(type, ir.Optional):
        return None if value is None else _type_state(schema, type.item, value)
    if isinstance(type, ir.Node):
        return _class_state(schema, schema[type.cls], value)
    if isinstance(type, ir.Sequence):
        return {str(index): _type_state(schema, type.item, one) for index, one in enumerate(value)}
    if isinstance(type, ir.Tuple):
        pairs = zip(type.items, value, strict=True)
        return {str(index): _type_state(schema, item, one) for index, (item, one) in enumerate(pairs)}
    if isinstance(type, ir.Dict):
        return {str(key): _type_state(schema, type.value, one) for key, one in value.items()}
    if isinstance(type, ir.Partial):
        args, keywords = _type_state(schema, type.args, value.args), _type_state(schema, type.keywords, value.keywords)
        return {"args": args, "keywords": keywords}
    if isinstance(type, ir.Key):
        return {"data": value}
    if isinstance(type, (ir.Array, ir.Fitted, ir.Scalar, ir.NumpyScalar, ir.Enum, ir.Untyped)):
        return value
    assert_never(type)
