"""Lowers the IR to what is emitted: fixed tuples and Partials become records like any class, with a reader each."""

from typing import Final, Literal

import attrs
from attrs import define, field

from treaty.schema import Schema, ir
from treaty.schema.dims import Name

LOWERED: Final = (ir.Tuple, ir.Partial)


def lower(schema: Schema) -> Schema:
    """The same schema without Tuple and Partial: each is a class of kind `tuple` or `partial` of its own."""
    lowering = _Lowering(frozenset(cls.id for cls in schema.classes))
    for cls in schema.classes:
        fields = tuple(attrs.evolve(one, type=lowering.type(one.type, f"{cls.id}.{one.name}")) for one in cls.fields)
        lowering.classes[cls.id] = attrs.evolve(cls, fields=fields)
    return Schema(schema.root, tuple(lowering.classes.values()))


@define
class _Lowering:
    schema_ids: frozenset[str]
    classes: dict[str, ir.Class] = field(factory=dict)

    def type(self, type: ir.Type, place: str) -> ir.Type:
        if isinstance(type, ir.Tuple):
            fields = [self._field(str(index), item, place) for index, item in enumerate(type.items)]
            return self._record("builtins:tuple", "tuple", fields, place)
        if isinstance(type, ir.Partial):
            fields = [self._field("args", type.args, place), ir.Field("keywords", "keywords", "", type.keywords)]
            return self._record(type.func, "partial", fields, place)
        return ir.with_children(type, lambda part: self.type(part, place))

    def _field(self, key: str, type: ir.Type, place: str) -> ir.Field:
        return ir.Field(key, key, key, self.type(type, f"{place}.{key}"))

    def _record(self, symbol: str, kind: Literal["tuple", "partial"], fields: list[ir.Field], place: str) -> ir.Node:
        id, number = f"{place}.{kind}" if place in self.schema_ids else place, 1
        while id in self.classes or id in self.schema_ids:
            number += 1
            id = f"{place}#{number}"
        types = [type for one in fields for type in ir.every_type(one.type)]
        dims = tuple(dict.fromkeys(name for type in types for dim in ir.own_dims(type) for name in dim.names))
        self.classes[id] = ir.Class(id, symbol, kind, dims, tuple(fields))
        return ir.Node(id, tuple(sorted((name, Name(name)) for name in dims)))
