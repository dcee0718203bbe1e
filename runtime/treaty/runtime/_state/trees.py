"""State dicts as leaves by path or by dotted name, and back."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import jax
import numpy as np

from treaty.runtime._errors import InvalidArgumentError, KeyMapError, show_keys
from treaty.runtime._lazy import LazyArray

Path = tuple[str, ...]
MAX_DEPTH: Final = 256  # levels that are written: far above any real tree, and two calls a level leave callers room


def check_depth(path: Path) -> None:
    """Refuse to write what is too deep to be restored."""
    if len(path) > MAX_DEPTH:
        raise InvalidArgumentError(f"expected at most {MAX_DEPTH} levels, got {len(path)} at {show_keys(path[:8])}…")


def is_stored_array(leaf: Any) -> bool:
    """Whether a leaf of a state dict is stored as an array: of numpy or JAX, or one that is still to be read."""
    return isinstance(leaf, (np.ndarray, jax.Array, LazyArray))


def dotted(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The leaves of a state dict by their keys, joined with dots."""
    found: dict[str, Any] = {}
    for path, leaf in flatten(tree):
        name = ".".join(path)
        if name in found:
            raise KeyMapError([f"expected keys that differ when joined with dots, got {name!r} twice"])
        found[name] = leaf
    return found


def nest_dotted(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """The state dict of leaves by dotted names."""
    return nest({tuple(name.split(".")): leaf for name, leaf in leaves.items()})


def on_host(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The state dict with lazy arrays read."""
    return {key: on_host(one) if type(one) is dict else _read(one) for key, one in tree.items()}


def abstract(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The state dict with the shape and dtype of each array, for checks that look at no data."""
    return {key: abstract(one) if type(one) is dict else _struct(one) for key, one in tree.items()}


def flatten(tree: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The leaves of a state dict by path; an empty node is one."""
    for key, value in tree.items():
        if type(value) is dict and value:
            yield from flatten(value, (*path, key))
        else:
            yield (*path, key), value


def nest(leaves: Mapping[Path, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    problems = []
    for path, leaf in leaves.items():
        node = tree
        for key in path[:-1]:
            below = node.setdefault(key, {})
            node = below if type(below) is dict else {}
            if below is not node:
                problems.append(f"expected a leaf or a node, got both on the way to {show_keys(path)}")
        if path[-1] in node:
            problems.append(f"expected a leaf or a node, got both at {show_keys(path)}")
        node[path[-1]] = leaf
    if problems:
        raise KeyMapError(problems)
    return tree


def _struct(value: Any) -> Any:
    struct: Any = jax.ShapeDtypeStruct  # its constructor has no types
    return struct(tuple(value.shape), value.dtype) if isinstance(value, (np.ndarray, LazyArray)) else value


def _read(value: Any) -> Any:
    return value.read() if isinstance(value, LazyArray) else value
