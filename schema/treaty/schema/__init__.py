"""Declare checkpoint state as attrs classes: what users write with, and what a declaration means.

Names are imported when first used: reading the schema in a checkpoint needs neither jaxtyping nor numpy.
"""

from typing import TYPE_CHECKING, Final

from treaty.schema._lazy_names import lazy_names

_HOMES: Final = {
    "_declare": ("ArraySpec", "Dims", "Fields", "FromInit", "Keys", "Length", "field", "state"),
    "_errors": ("NewerFormatError", "SchemaError", "TreatyError"),
    "_read": ("schema_of",),
    "evolution.migrations": ("migration",),
    "evolution.resolve": ("resolve",),
    "ir": ("Schema",),
    "keymap": ("KeyMap", "Rule"),
}

if TYPE_CHECKING:
    from treaty.schema._declare import ArraySpec as ArraySpec
    from treaty.schema._declare import Dims as Dims
    from treaty.schema._declare import Fields as Fields
    from treaty.schema._declare import FromInit as FromInit
    from treaty.schema._declare import Keys as Keys
    from treaty.schema._declare import Length as Length
    from treaty.schema._declare import field as field
    from treaty.schema._declare import state as state
    from treaty.schema._errors import NewerFormatError as NewerFormatError
    from treaty.schema._errors import SchemaError as SchemaError
    from treaty.schema._errors import TreatyError as TreatyError
    from treaty.schema._read import schema_of as schema_of
    from treaty.schema.evolution.migrations import migration as migration
    from treaty.schema.evolution.resolve import resolve as resolve
    from treaty.schema.ir import Schema as Schema
    from treaty.schema.keymap import KeyMap as KeyMap
    from treaty.schema.keymap import Rule as Rule
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
