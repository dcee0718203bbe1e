"""Declare checkpoint state as attrs classes: what users write with, and what a declaration means."""

from treaty.schema._declare import ArraySpec as ArraySpec
from treaty.schema._declare import Dims as Dims
from treaty.schema._declare import Fields as Fields
from treaty.schema._declare import Length as Length
from treaty.schema._declare import field as field
from treaty.schema._declare import state as state
from treaty.schema._errors import SchemaError as SchemaError
from treaty.schema._errors import TreatyError as TreatyError
from treaty.schema._read import schema_of as schema_of
from treaty.schema.ir import Schema as Schema
