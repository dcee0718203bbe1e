"""Defaults of fields as state dicts: what fills in for a field that a checkpoint's schema did not have."""

from importlib import import_module
from typing import Any, assert_never

import attrs

from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._state.arrays import is_key, write_key
from treaty.runtime._state.state_dict import to_state_dict
from treaty.schema import SchemaError, ir
from treaty.schema._classes import class_kind, default_value
from treaty.schema._default_texts import literal
from treaty.schema.evolution.resolution import Fill


def filled(fill: Fill) -> Any:
    """The state of a default. A factory is called each time."""
    value = _present(fill) if fill.present else _past(fill)
    return _state(fill.type, value)


def _present(fill: Fill) -> Any:
    cls = _imported(fill.symbol)
    kind = class_kind(cls)
    assert kind is not None  # it is a class of the reader's schema
    try:
        value = default_value(cls, kind, fill.field, call=True)
    except SchemaError as error:
        raise InvalidArgumentError(f"{fill.symbol}, {fill.field}: {error}") from error
    if value is attrs.NOTHING:
        raise InvalidArgumentError(
            f"expected a default that needs nothing else, got a factory that takes the instance at {fill.field} of {fill.symbol}"
        )
    return value


def _past(fill: Fill) -> Any:
    """Of a revision that is past only the text of a default is left."""
    text = fill.default
    if text.startswith("factory:"):
        factory = _imported(text.removeprefix("factory:"))
        try:
            return factory()
        except Exception as error:  # it is user code: it can raise anything
            said = f"{type(error).__name__}: {error}"
            raise InvalidArgumentError(f"{fill.symbol}, {fill.field}: {text} raises {said}") from error
    if isinstance(_inner(fill.type), ir.Enum) and ":" in text:
        return text.rpartition(".")[2]
    try:
        return literal(text)
    except ValueError:
        raise InvalidArgumentError(
            f"expected a default that can be made again, got {text} at {fill.field} of {fill.symbol}; "
            f"write a migration that gives the value"
        ) from None


def _inner(type: ir.Type) -> ir.Type:
    return type.item if isinstance(type, ir.Optional) else type


def _imported(symbol: str) -> Any:
    module, _, qualname = symbol.partition(":")
    try:
        found: Any = import_module(module)
        for name in qualname.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise InvalidArgumentError(f"expected {symbol}, which a default needs, got {error}") from None
    return found


def _state(type: ir.Type, value: Any) -> Any:
    """A value in the form of state dicts."""
    if value is None:
        return None
    type = _inner(type)
    if isinstance(type, ir.Key):
        return write_key(value) if is_key(value) else value
    if isinstance(type, ir.Enum):
        return getattr(value, "name", value)
    if isinstance(type, ir.Node):
        return to_state_dict(value)
    if isinstance(type, ir.Sequence):
        return {str(index): _state(type.item, one) for index, one in enumerate(value)}
    if isinstance(type, ir.Tuple):
        pairs = zip(type.items, value, strict=True)
        return {str(index): _state(item, one) for index, (item, one) in enumerate(pairs)}
    if isinstance(type, ir.Dict):
        return {str(key): _state(type.value, one) for key, one in value.items()}
    if isinstance(type, (ir.Array, ir.Fitted, ir.Scalar, ir.NumpyScalar, ir.Untyped, ir.Partial, ir.Optional)):
        return value
    assert_never(type)
