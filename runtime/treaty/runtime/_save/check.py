"""What is to be saved: a state that fits its class, as a state dict, on the side of the fields or of a key map's names."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
from attrs import frozen

from treaty.runtime._keymaps.apply import to_stored
from treaty.runtime._save.revision import as_revision, revisions_written
from treaty.runtime._state.registry import codec_for
from treaty.runtime._state.state_dict import check_state, write_state
from treaty.runtime._trees import Path, map_leaves, nest_named
from treaty.schema import Schema, ir
from treaty.schema.keymap import KeyMap


@frozen
class Checked:
    """A state dict that can be restored. Under other names than its fields', no schema describes it."""

    tree: dict[str, Any]
    schema: Schema | None
    ordered: Collection[Path]  # its dicts whose order counts
    revisions: Mapping[str, int] = MappingProxyType({})  # of its classes, by symbol


def checked(
    state: object,
    cls: Any = None,
    keymap: KeyMap | None = None,
    revision: int | None = None,
    *,
    will_change: bool = False,
) -> Checked:
    """The state dict of an instance. What a restore would refuse is raised here, before anything is stored.

    Under a key map, arrays are laid out when they are written: of a state that will change before that, they are copied.
    """
    codec = codec_for(state, cls)
    tree = write_state(codec, state)
    check_state(codec, tree)
    if keymap is not None:
        tree = map_leaves(_kept, tree) if will_change else tree
        return Checked(nest_named(to_stored(keymap, tree)), None, ())
    schema = codec.schema
    if revision is not None:
        tree, schema = as_revision(codec, tree, revision)
    return Checked(tree, schema.as_stored, ordered_dicts(schema, tree), revisions_written(codec, revision))


def _kept(value: Any) -> Any:
    """A leaf as it is now. An array of JAX in host memory is only referred to: JAX neither donates nor frees what numpy looks at."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return np.asarray(value) if isinstance(value, jax.Array) and value.is_fully_addressable else value


def ordered_dicts(schema: Schema, state: Mapping[str, Any]) -> set[Path]:
    """The dicts of a state that fits the schema: not its classes and sequences, whose parts have their own order."""
    types = [type for cls in schema.classes for field in cls.fields for type in ir.every_type(field.type)]
    if not any(isinstance(type, (ir.Dict, ir.Untyped)) for type in types):
        return set()
    return set(_dicts(schema, ir.Node(schema.root), state, ()))


def _dicts(schema: Schema, type: ir.Type, state: Any, path: Path) -> Iterator[Path]:
    parts = ir.parts(schema, type, state) if state.__class__ is dict else None
    if parts is None:
        return
    if isinstance(type.item if isinstance(type, ir.Optional) else type, (ir.Dict, ir.Untyped)):
        yield path
    for key, part in parts.items():
        yield from _dicts(schema, part, state[key], (*path, key))
