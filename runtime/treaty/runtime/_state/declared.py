"""The array leaves of a state, each with its declared type and the names of its axes, found by walking schema and state."""

from collections.abc import Mapping
from typing import Any, assert_never

from attrs import frozen

from treaty.schema import Schema, ir
from treaty.schema.dims import Dim, Expr, Int, Name

Keys = tuple[str, ...]
_Names = Mapping[str, tuple[str, ...]]  # dim of a class -> what the owners call it, from the inside out


@frozen
class Declared:
    """The declaration of one array leaf. `axes` holds, per axis, every name it goes by, its own first."""

    type: ir.Array | ir.Key
    axes: tuple[tuple[str, ...], ...]
    cast_from: tuple[str, ...] = ()  # stored dtypes that its field converts

    @property
    def on_host(self) -> bool:
        return isinstance(self.type, ir.Array) and self.type.host


def declared_arrays(schema: Schema, state: Any) -> dict[Keys, Declared]:
    """By path in the state dict; the words of a PRNG key are at its `data`. Untyped subtrees have none."""
    walk = _DeclaredWalk(schema)
    walk.in_class(schema.root_class, state, {}, ())
    return walk.found


class _DeclaredWalk:
    """What is declared alike in all items of a list is worked out once: half the time of ten thousand leaves."""

    def __init__(self, schema: Schema) -> None:
        self.found: dict[Keys, Declared] = {}
        self._schema = schema
        # By `id` of a type and of its names, which are slow to hash. They live as long as the walk: no id comes up twice.
        self._declared: dict[tuple[int, int, tuple[str, ...]], Declared] = {}
        self._below: dict[tuple[int, int], tuple[ir.Node, _Names]] = {}

    def in_class(self, cls: ir.Class, state: Any, names: _Names, path: Keys) -> None:
        for field in cls.fields:
            for key, type in ir.entries(self._schema, field, state).items():
                self._in_type(type, state[key], names, (*path, key), field.cast_from)

    def _in_type(self, type: ir.Type, state: Any, names: _Names, path: Keys, casts: tuple[str, ...]) -> None:
        """`casts` are those of the field whose type this is a part of."""
        if isinstance(type, ir.Optional):
            type = ir.Untyped() if state is None else type.item
        if isinstance(type, ir.Array):
            self.found[path] = self._array(type, names, casts)
        elif isinstance(type, ir.Node):
            self.in_class(self._schema[type.cls], state, self._names_below(type, names), path)
        elif isinstance(type, ir.Fitted):  # which of its axes is which dim, only init knows
            self.found[path] = Declared(ir.Array(type.dtype, ()), ((),) * len(getattr(state, "shape", ())))
        elif isinstance(type, ir.Key):
            self.found[(*path, "data")] = Declared(type, (*(_called(dim, names) for dim in type.dims), ()))
        elif isinstance(type, (ir.Sequence, ir.Tuple, ir.Dict, ir.Partial)):
            for key, part in (ir.parts(self._schema, type, state.keys()) or {}).items():
                self._in_type(part, state[key], names, (*path, key), casts)
        elif isinstance(type, (ir.Scalar, ir.NumpyScalar, ir.Enum, ir.Untyped, ir.Optional)):
            return
        else:
            assert_never(type)

    def _array(self, type: ir.Array, names: _Names, casts: tuple[str, ...]) -> Declared:
        key = (id(type), id(names), casts)
        if key not in self._declared:
            self._declared[key] = Declared(type, tuple(_called(dim, names) for dim in type.dims), casts)
        return self._declared[key]

    def _names_below(self, node: ir.Node, names: _Names) -> _Names:
        key = (id(node), id(names))
        if key not in self._below:
            self._below[key] = (node, {name: _also_called(size, names) for name, size in node.ties})
        return self._below[key][1]


def _called(dim: Dim, names: _Names) -> tuple[str, ...]:
    own = () if dim.label is None else (dim.label, *names.get(dim.label, ()))
    return (*own, *_also_called(dim.size, names))


def _also_called(size: Expr, names: _Names) -> tuple[str, ...]:
    """`d_model` by its name here and above; `4*d_model` by that text."""
    if isinstance(size, Int):
        return ()
    return (size.name, *names.get(size.name, ())) if isinstance(size, Name) else (str(size),)
