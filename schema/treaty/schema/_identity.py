"""Class ids: all that the code of a class depends on, as text, so that two that differ in anything are two classes."""

from collections.abc import Iterable, Mapping
from typing import assert_never

from treaty.schema import ir
from treaty.schema._ties import EVERY, OWN, rebuild
from treaty.schema.dims import Expr


def generic_id(symbol: str, args: Iterable[ir.Type]) -> str:
    """`model:Moments[model:Linear]`. An argument is open in any case, so that the mark of it says nothing."""
    return f"{symbol}[{', '.join(_of_type(rebuild(arg, _without_mark)) for arg in args)}]"


def inline_id(symbol: str, types: Mapping[str, ir.Type]) -> str:
    """`optax:TraceState(trace: model:Linear)`: a class described in place is known by its content."""
    fields = [f"{name if name.isidentifier() else repr(name)}: {_of_type(type)}" for name, type in types.items()]
    return f"{symbol}({', '.join(fields)})"


def _of_type(type: ir.Type) -> str:
    """As `ir.describe`, with what messages leave out: host arrays, lengths, open ties, arguments of a Partial."""
    if isinstance(type, ir.Array):
        return f"host {ir.describe(type)}" if type.host else ir.describe(type)
    if isinstance(type, ir.Fitted):
        return f"{ir.describe(type)} of {type.param}, {type.init} {type.at} {type.seen}"
    if isinstance(type, ir.Node):
        ties = [name if name in (EVERY, OWN) else f"{name}={size}" for name, size in type.ties]
        return type.cls + (f"({', '.join(ties)})" if ties else "")
    if isinstance(type, ir.Sequence):
        length = _length(type.length)
        return (
            f"tuple[{_of_type(type.item)}, ...{length}]" if type.immutable else f"list[{_of_type(type.item)}{length}]"
        )
    if isinstance(type, ir.Tuple):
        return f"tuple[{', '.join(map(_of_type, type.items)) or '()'}]"
    if isinstance(type, ir.Dict):
        return f"dict[{type.key}, {_of_type(type.value)}{_length(type.length)}]"
    if isinstance(type, ir.Optional):
        return f"{_of_type(type.item)} | None"
    if isinstance(type, ir.Partial):
        return f"Partial[{type.func}, {_of_type(type.args)}, {_of_type(type.keywords)}]"
    if isinstance(type, (ir.Key, ir.Scalar, ir.NumpyScalar, ir.Enum, ir.Untyped)):
        return ir.describe(type)
    assert_never(type)


def _length(size: Expr | None) -> str:
    return "" if size is None else f", Length({size})"


def _without_mark(node: ir.Node) -> ir.Node:
    return ir.Node(node.cls, tuple(one for one in node.ties if one[0] != EVERY))
