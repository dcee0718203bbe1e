"""Declare checkpoint state as attrs classes: what users write with, and what a declaration means.

Names are imported when first used: reading the schema in a checkpoint needs neither jaxtyping nor numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treaty.schema._declare import ArraySpec as ArraySpec
    from treaty.schema._declare import Dims as Dims
    from treaty.schema._declare import Fields as Fields
    from treaty.schema._declare import Length as Length
    from treaty.schema._declare import field as field
    from treaty.schema._declare import state as state
    from treaty.schema._errors import NewerFormatError as NewerFormatError
    from treaty.schema._errors import SchemaError as SchemaError
    from treaty.schema._errors import TreatyError as TreatyError
    from treaty.schema._read import schema_of as schema_of
    from treaty.schema.ir import Schema as Schema

_HOME: Final = {
    "ArraySpec": "_declare",
    "Dims": "_declare",
    "Fields": "_declare",
    "Length": "_declare",
    "field": "_declare",
    "state": "_declare",
    "NewerFormatError": "_errors",
    "SchemaError": "_errors",
    "TreatyError": "_errors",
    "schema_of": "_read",
    "Schema": "ir",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
