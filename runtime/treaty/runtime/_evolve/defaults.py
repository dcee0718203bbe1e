"""Defaults of fields as state dicts: what fills in for a field that a checkpoint's schema did not have."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import attrs

from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._state.arrays import is_key, write_key
from treaty.runtime._state.by_schema import StateForm
from treaty.schema import Schema, SchemaError, ir
from treaty.schema._classes import class_kind, default_value
from treaty.schema._default_texts import literal
from treaty.schema._ties import rebuild
from treaty.schema.evolution.resolution import Fill


def filler(fill: Fill, present: Schema) -> Callable[[], Any]:
    """What makes the state of a default, gathered, as the classes of the present schema have it. A factory is called each time."""
    # Of a generic class of the past, the classes that it reached then go by ids of their own.
    type = rebuild(fill.type, lambda node: ir.Node(node.cls.removesuffix("@"), node.ties))
    known = {cls.id for cls in present.classes}
    if missing := [node.cls for node in ir.nodes(type) if node.cls not in known]:
        raise InvalidArgumentError(
            f"expected a default of a class that there is, got {missing[0]} at {fill.field} of {fill.symbol}; "
            f"write a migration that gives the value"
        )
    form = StateForm(present.gathered, _of_key)
    return lambda: form.type(type, _present(fill) if fill.present else _past(fill))


def _of_key(value: Any) -> Any:
    return write_key(value) if is_key(value) else value


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
            f"expected a default that needs nothing else, got one that takes the instance at {fill.field} of {fill.symbol}; "
            f"write a migration that gives the value"
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
