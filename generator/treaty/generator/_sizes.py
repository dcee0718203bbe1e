"""What abstract functions need: the dims they take, and whether a class has a known number of everything."""

from typing import assert_never

from treaty.schema import Schema, ir


def all_sizes(schema: Schema) -> dict[str, tuple[str, ...]]:
    """The dims each abstract function takes: its own, and those that classes below it leave untied."""
    sizes: dict[str, tuple[str, ...]] = {cls.id: () for cls in schema.classes}
    while True:
        grown = {cls.id: _sizes(cls, sizes) for cls in schema.classes}
        if grown == sizes:
            return sizes
        sizes = grown


def all_unsized(schema: Schema) -> dict[str, str]:
    """For each class, the path of the first thing below it whose number is open; "" where all is known."""
    return {cls.id: _unsized(schema, cls, frozenset()) for cls in schema.classes}


def left_out(schema: Schema, owner: str, item: ir.Type) -> bool:
    """Whether an abstract value of an optional type is None: it has an open number of something, or never ends."""
    never_ends = any(cls.id == owner for node in ir.nodes(item) for cls in schema.at(node.cls).classes)
    return never_ends or _unsized_type(schema, item, frozenset()) is not None


def _sizes(cls: ir.Class, sizes: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    defined = dict(cls.definitions)
    found = [dim for dim in cls.dims if dim not in defined]
    for field in cls.fields:
        for node in ir.nodes(field.type):
            tied = dict(node.ties)
            found += [name for name in sizes[node.cls] if name not in tied and name not in defined]
    return tuple(dict.fromkeys(found))


def _unsized(schema: Schema, cls: ir.Class, above: frozenset[str]) -> str:
    if cls.id in above:
        return "…"
    for field in cls.fields:
        found = _unsized_type(schema, field.type, above | {cls.id})
        if found is not None:
            return f".{field.name}{found}"
    return ""


def _unsized_type(schema: Schema, type: ir.Type, above: frozenset[str]) -> str | None:
    if isinstance(type, ir.Node):
        return _unsized(schema, schema[type.cls], above) or None
    if isinstance(type, ir.Sequence) and type.length is not None:
        below = _unsized_type(schema, type.item, above)
        return None if below is None else f"[0]{below}"
    if isinstance(type, (ir.Sequence, ir.Dict, ir.Untyped)):
        return ""
    if isinstance(
        type, (ir.Array, ir.Key, ir.Fitted, ir.Scalar, ir.NumpyScalar, ir.Enum, ir.Optional, ir.Tuple, ir.Partial)
    ):
        return None  # an optional is left out if its item is open; lowered types have no Tuple and no Partial
    assert_never(type)
