"""State dicts as leaves by path or by dotted name, and back. Here and nowhere else are trees taken apart and put together."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import jax
import numpy as np

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError, KeyMapError, show_keys
from treaty.runtime._lazy import LazyArray
from treaty.schema.dtypes import KEY_IMPLS

Path: TypeAlias = tuple[str, ...]
MAX_DEPTH: Final = 256  # levels that are written: far above any real tree, and two calls a level leave callers room
MOST_LEVELS: Final = 400  # levels that are read: more than any version has written


def check_depth(path: Path) -> None:
    """Refuse to write what is too deep to be restored."""
    if len(path) > MAX_DEPTH:
        raise InvalidArgumentError(f"expected at most {MAX_DEPTH} levels, got {len(path)} at {show_keys(path[:8])}…")


def is_stored_array(leaf: Any) -> bool:
    """Whether a leaf of a state dict is stored as an array: of numpy, but for masked ones, or JAX, or one that is still to be read."""
    return isinstance(leaf, (np.ndarray, jax.Array, LazyArray)) and not isinstance(leaf, np.ma.MaskedArray)


def is_stored_key(node: Any) -> bool:
    """Whether a node of a state dict is an array of random keys: the name of what makes them, and their words."""
    if type(node) is not dict or node.keys() != {"impl", "data"} or type(node["impl"]) is not str:
        return False
    words, data = KEY_IMPLS.get(node["impl"]), node["data"]
    return is_stored_array(data) and data.dtype == np.uint32 and data.shape[-1:] == (words,)


def shown(leaf: Any) -> str:
    """`float32[4, 8]` of an array, the name of its type of all else."""
    return f"{leaf.dtype}{list(leaf.shape)}" if is_stored_array(leaf) else type(leaf).__name__


def flatten(tree: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """The leaves of a state dict by path, in order; an empty node is one."""
    pending: list[tuple[Path, Any]] = []
    pending.extend(((key,), value) for key, value in reversed(list(tree.items())))
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict) and value:
            pending.extend(((*path, key), value[key]) for key in reversed(value))
        else:
            yield path, value


def nest(leaves: Iterable[tuple[Path, Any]], problems: list[str] | None = None) -> Any:
    """The state dict of leaves by path, in their order. A leaf whose path is empty is all there is.

    Two leaves at one place are an error, or, where the caller lists `problems`, a line there.
    """
    tree: dict[str, Any] = {}
    for path, leaf in leaves:
        if not path:
            return leaf
        try:
            insert(tree, path, leaf)
        except CorruptCheckpointError as error:
            if problems is None:
                raise
            problems.append(str(error))
    return tree


def insert(tree: dict[str, Any], path: Sequence[str], leaf: Any) -> None:
    """Put a leaf where nothing is."""
    if len(path) > MOST_LEVELS:
        raise CorruptCheckpointError(f"expected at most {MOST_LEVELS} levels, got {len(path)}")
    node = tree
    for key in path[:-1]:
        node = node.setdefault(key, {})
        if type(node) is not dict:
            raise CorruptCheckpointError(f"expected one value a place, got two on the way to {show_keys(tuple(path))}")
    if path[-1] in node:
        raise CorruptCheckpointError(f"expected one value a place, got two at {show_keys(tuple(path))}")
    node[path[-1]] = (
        leaf if leaf.__class__ is not dict or leaf else {}
    )  # not the caller's own, which a later leaf would fill


def dotted(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The leaves of a state dict by their keys, joined with dots."""
    found: dict[str, Any] = {}
    for path, leaf in flatten(tree):
        name = ".".join(path)
        if name in found:
            raise KeyMapError([f"expected keys that differ when joined with dots, got {name!r} twice"])
        found[name] = leaf
    return found


def nest_named(leaves: Mapping[str, Any], separator: str = ".") -> dict[str, Any]:
    """The state dict of leaves by names, which a key map made."""
    problems: list[str] = []
    tree: dict[str, Any] = nest(((tuple(name.split(separator)), leaf) for name, leaf in leaves.items()), problems)
    if problems:
        raise KeyMapError(problems)
    return tree


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with another leaf in place of each; an empty node stays one."""
    if type(tree) is not dict:
        return function(tree)
    return {key: map_leaves(function, value) if type(value) is dict else function(value) for key, value in tree.items()}


def abstract(tree: Any) -> Any:
    """The state dict with the shape and dtype of each array, for checks that look at no data."""
    return map_leaves(_struct, tree)


@lru_cache(2**10)  # JAX takes a while over each, and most arrays of a state are alike
def struct(shape: tuple[int, ...], dtype: Any) -> Any:
    make: Any = jax.ShapeDtypeStruct  # its constructor has no types
    return make(shape, dtype)


def _struct(leaf: Any) -> Any:
    return struct(tuple(leaf.shape), leaf.dtype) if isinstance(leaf, (np.ndarray, LazyArray)) else leaf
