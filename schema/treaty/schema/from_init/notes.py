"""`FromInit(...)` as it stands on a field: what may be written beside it, and what its function is called."""

import sys
import typing
from typing import Annotated, Any, Final

from treaty.schema._declare import FieldOptions, FromInit, Keys
from treaty.schema._errors import SchemaError
from treaty.schema._leaves import TYPE_ALIAS
from treaty.schema.modules import can_be_imported, home_of, symbol_of

_WRITE: Final = "write def make_optimizer(): return ... at the top level of a module"


def from_init(annotation: Any) -> FromInit | None:
    """The FromInit of a field, if its annotation has one. Anywhere else it is `misplaced_init`."""
    while isinstance(annotation, TYPE_ALIAS) or typing.get_origin(annotation) is typing.Required:
        is_alias = isinstance(annotation, TYPE_ALIAS)
        annotation = annotation.__value__ if is_alias else typing.get_args(annotation)[0]
    notes = typing.get_args(annotation)[1:] if typing.get_origin(annotation) is Annotated else ()
    found = next((one for one in notes if isinstance(one, FromInit)), None)
    for other in notes:
        if found is not None and other is not found and type(other).__module__ == FromInit.__module__:
            raise SchemaError(f"{other!r} beside {found!r}: init says the whole type; remove it")
    return found


def misplaced_init(marker: FromInit) -> SchemaError:
    return SchemaError(
        f"{marker!r}: the state is made of a field of the same class; write it on a field itself, "
        f"as in opt: Annotated[optax.OptState, {marker!r}]"
    )


def refuse_options(marker: FromInit, options: FieldOptions, keys: Keys | None) -> None:
    """What a field with FromInit may not be."""
    if keys is not None:
        raise SchemaError(f"{keys!r} beside {marker!r}: init says the whole type; remove it")
    if options.static:
        raise SchemaError(f"field(static=True) beside {marker!r}: the state is arrays, and changes; remove static=True")
    if options.cast_from:
        raise SchemaError(
            f"field(cast_from=...) beside {marker!r}: expected a field that is an array; pass cast= to restore"
        )


def factory_symbol(marker: FromInit, owner: Any) -> str:
    """What the function is called where it can be imported; a partial by the name that it has in the owner's module."""
    make = marker.make
    symbol = symbol_of(make) if hasattr(make, "__qualname__") else ""
    if symbol and can_be_imported(symbol, make):
        return symbol
    for name, value in list(vars(sys.modules[owner.__module__]).items()):
        if value is make and name.isidentifier():
            return f"{home_of(owner.__module__)}:{name}"
    what = (
        "a lambda" if "<lambda>" in symbol else "a local function" if "<locals>" in symbol else "a thing without a name"
    )
    raise SchemaError(f"{marker!r}: {what} cannot be imported; {_WRITE}")
