"""State dicts in memory under the names of a key map's other side, and back."""

from collections.abc import Mapping
from typing import Any

from treaty.runtime._keymaps.apply import to_fields, to_stored
from treaty.runtime._lazy import LazyArray
from treaty.runtime._trees import dotted, flatten, nest, nest_named
from treaty.schema.keymap import KeyMap


def field_state(keymap: KeyMap, state: Mapping[str, Any], sizes: Mapping[str, int] | None) -> dict[str, Any]:
    """The state dict of nested dicts, or of tensors by whole names."""
    return _read(to_fields(keymap, dotted(dict(state)), sizes))


def stored_state(keymap: KeyMap, state: Mapping[str, Any]) -> dict[str, Any]:
    return _read(nest_named(to_stored(keymap, state)))


def _read(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Lazy arrays are of files: whoever has a state dict in memory wants arrays in it."""
    leaves = ((path, leaf.read() if isinstance(leaf, LazyArray) else leaf) for path, leaf in flatten(tree))
    found: dict[str, Any] = nest(leaves)
    return found
