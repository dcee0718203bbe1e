"""What goes into an Orbax checkpoint: leaves with the keys and kinds that Orbax gives them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, assert_never

import jax
import numpy as np
from attrs import frozen

from treaty.runtime._errors import InvalidArgumentError, show_path
from treaty.runtime._save.check import checked
from treaty.runtime._state.arrays import is_key
from treaty.runtime._trees import check_depth, is_stored_array, is_stored_key
from treaty.schema import Schema, ir
from treaty.schema._declare import state_options
from treaty.schema.dtypes import BY_NAME

SEQUENCE: Final = 1
DICT: Final = 2
_Keys: TypeAlias = tuple[tuple[str, int], ...]


@frozen
class ItemLeaf:
    """`kind` is Orbax's name for how a value is stored; a value of None is in the metadata alone."""

    keys: _Keys
    kind: str
    value: Any = None
    impl: str | None = None  # of a PRNG key, whose words are the value

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(key for key, _ in self.keys)

    @property
    def name(self) -> str:
        return ".".join(self.path)


def leaves_of(tree: Any, schema: Schema | None) -> list[ItemLeaf]:
    """The leaves of a state dict that fits a schema, or of any tree."""
    leaves = list(_plain(tree, ()) if schema is None else _typed(schema, ir.Node(schema.root), tree, ()))
    places: dict[str, ItemLeaf] = {}
    for leaf in leaves:
        check_depth(leaf.path)
        if not leaf.path:
            raise InvalidArgumentError("expected a tree with a leaf or an empty node below its root, got an empty one")
        other = places.setdefault(leaf.name, leaf)
        if other is not leaf:
            both = f"{show_path(other.path)} and {show_path(leaf.path)}"
            raise InvalidArgumentError(f"expected keys that differ when joined with dots, as Orbax does, got {both}")
    return leaves


def _typed(schema: Schema, type: ir.Type, state: Any, keys: _Keys) -> Iterator[ItemLeaf]:
    """The schema knows what a state dict has forgotten: which of its dicts are sequences, and which nodes are empty."""
    if isinstance(type, ir.Optional):
        type = ir.Untyped() if state is None else type.item
    if isinstance(type, ir.Leaf):
        yield from _plain(state, keys)
        return
    parts = ir.parts(schema, type, state) or {}
    key_type = SEQUENCE if isinstance(type, (ir.Sequence, ir.Tuple)) else DICT
    for key, part in parts.items():
        yield from _typed(schema, part, state[key], (*keys, (key, key_type)))
    if not parts:
        yield ItemLeaf(keys, _empty(type))


def _empty(type: ir.Type) -> str:
    """Orbax's name for an empty node; of a class it is that of an empty NamedTuple."""
    if isinstance(type, ir.Sequence):
        return "Tuple" if type.immutable else "List"
    if isinstance(type, ir.Tuple):
        return "Tuple"
    if isinstance(type, (ir.Dict, ir.Partial)):
        return "Dict"
    if isinstance(type, (ir.Node, ir.Optional, ir.Leaf)):
        return "None"
    assert_never(type)


def _plain(value: Any, keys: _Keys) -> Iterator[ItemLeaf]:
    if is_stored_key(value):
        yield ItemLeaf(keys, "jax.Array", value["data"], value["impl"])
    elif isinstance(value, Mapping):
        yield from _nodes([(str(key), DICT, one) for key, one in value.items()], "Dict", keys)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from _nodes([(name, DICT, getattr(value, name)) for name in value._fields], "None", keys)
    elif isinstance(value, (list, tuple)):
        empty = "List" if isinstance(value, list) else "Tuple"
        yield from _nodes([(str(index), SEQUENCE, one) for index, one in enumerate(value)], empty, keys)
    elif state_options(type(value)) is not None:
        inner = checked(value)
        assert inner.schema is not None
        yield from _typed(inner.schema, ir.Node(inner.schema.root), inner.tree, keys)
    else:
        yield _leaf(value, keys)


def _nodes(parts: list[tuple[str, int, Any]], empty: str, keys: _Keys) -> Iterator[ItemLeaf]:
    for key, key_type, value in parts:
        yield from _plain(value, (*keys, (key, key_type)))
    if not parts:
        yield ItemLeaf(keys, empty)


def _leaf(value: Any, keys: _Keys) -> ItemLeaf:
    if value is None:
        return ItemLeaf(keys, "None")
    if type(value) is str:
        return ItemLeaf(keys, "string", value)
    if isinstance(value, jax.Array) and is_key(value):
        return ItemLeaf(keys, "jax.Array", jax.random.key_data(value), str(jax.random.key_impl(value)))
    if type(value) in (bool, int, float, complex):
        value, kind = np.asarray(value), "scalar"
    else:
        kind = "np.ndarray"
    dtype = getattr(value, "dtype", None)
    if not (is_stored_array(value) or isinstance(value, np.generic)) or not _is_storable(dtype):
        kind = "a masked array" if isinstance(value, np.ma.MaskedArray) else "an array"
        got = type(value).__name__ if dtype is None else f"{kind} of {dtype}"
        path = show_path(tuple(key for key, _ in keys))
        raise InvalidArgumentError(f"expected what Orbax can store, got {got} at {path}")
    return ItemLeaf(keys, kind, value)


def _is_storable(dtype: Any) -> bool:
    row = BY_NAME.get(getattr(dtype, "name", ""))
    return row is not None and row.tensorstore is not None
