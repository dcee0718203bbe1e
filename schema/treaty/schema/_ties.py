"""Ties while a declaration is read: `Dims` and `Length` on a type, and the mark that ties every dim by name."""

from collections.abc import Callable, Mapping
from typing import Final, assert_never

import attrs

from treaty.schema import ir
from treaty.schema._declare import Dims
from treaty.schema._errors import SchemaError
from treaty.schema.dims import Expr, Name

EVERY: Final = ir.EVERY
OWN: Final = "None"  # in ties, until dims are settled: what is not tied is the child's own, and said to be


def open_ties(type: ir.Type) -> ir.Type:
    return rebuild(type, lambda node: with_ties(node, {EVERY: Name(EVERY)}))


def tie(type: ir.Type, dims: Dims) -> ir.Type:
    if not list(ir.nodes(type)):
        raise SchemaError(f"{dims!r}: only a class has dims to tie, not {ir.describe(type)}; remove Dims(...)")
    ties: dict[str, Expr] = dict(dims.ties) | dict.fromkeys(dims.own, Name(OWN))
    if dims.rest is not None:
        mark = EVERY if dims.rest == "shared" else OWN
        ties[mark] = Name(mark)
    return rebuild(type, lambda node: with_ties(node, ties))


def with_length(type: ir.Type, size: Expr) -> ir.Type:
    if isinstance(type, ir.Optional):
        return ir.Optional(with_length(type.item, size))
    if isinstance(type, (ir.Sequence, ir.Dict)):
        return attrs.evolve(type, length=size)
    if not isinstance(type, (ir.Leaf, ir.Node, ir.Tuple, ir.Partial)):
        assert_never(type)
    raise SchemaError(f"Length({str(size)!r}): expected list[X], tuple[X, ...] or dict[K, X], got {ir.describe(type)}")


def rebuild(type: ir.Type, change: Callable[[ir.Node], ir.Node]) -> ir.Type:
    """The type with every class reference in it changed."""
    return change(type) if isinstance(type, ir.Node) else ir.with_children(type, lambda part: rebuild(part, change))


def with_ties(node: ir.Node, ties: Mapping[str, Expr]) -> ir.Node:
    """Ties given nearer to the class win over those given further out."""
    nearer = dict(node.ties)
    if EVERY in nearer or OWN in nearer:
        ties = {name: size for name, size in ties.items() if name not in (EVERY, OWN)}
    return ir.Node(node.cls, tuple(sorted({**ties, **nearer}.items())))
