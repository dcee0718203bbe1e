"""What the function takes that replaces fields of a class."""

from attrs import frozen

from treaty.generator import _expressions as ex
from treaty.generator._module_scope import ModuleScope
from treaty.generator._names import TypedEntry, is_by_call
from treaty.schema import ir


@frozen
class Changes:
    """The fields of a class as its constructor calls them, with their types: any of them may be replaced."""

    name: str
    fields: list[TypedEntry]
    by_call: bool


def changes_of(scope: ModuleScope, cls: ir.Class) -> Changes | None:
    """For a class of this module. Of a generic one whose arguments are open, nothing is known of its fields."""
    is_open = any(isinstance(arg, ir.Untyped) for arg in cls.args)
    if cls.kind != "state" or cls.module != scope.module or not cls.fields or is_open:
        return None
    fields = [TypedEntry(one.alias, ex.object_type(scope, one.type)) for one in cls.fields]
    return Changes(f"{scope.stems[cls.id][1]}Changes", fields, is_by_call(fields))
