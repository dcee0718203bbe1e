"""Where each leaf of a pytree stands: as a tuple of keys, as eformer's dotted name, and as a directory."""

from collections.abc import Callable
from typing import Any

import jax
from jax.tree_util import DictKey, GetAttrKey, SequenceKey

from treaty.runtime.formats.eformer import INDEX

Keys = tuple[str, ...]

_UNSAFE = str.maketrans({"%": "%25", "/": "%2F", "\\": "%5C", "\0": "%00"})
_UNSAFE_WHOLE = {"": "%", ".": "%2E", "..": "%2E%2E", INDEX: INDEX.replace(".", "%2E")}

_LOCK = ".__lock"  # TensorStore keeps these names for itself


def is_array_like(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def leaf_key_paths(pytree: Any, prefix: str | None = "", *, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The same tree, each leaf replaced by its dotted name: `{"a": [x]}` -> `{"a": ["a.0"]}`."""
    leaves, treedef = jax.tree_util.tree_flatten_with_path(pytree, is_leaf=is_leaf)
    return jax.tree_util.tree_unflatten(treedef, [_dotted(prefix, keys_of(path)) for path, _ in leaves])


def keys_of(path: tuple[Any, ...]) -> Keys:
    return tuple(map(_key_text, path))


def directory(prefix: str | None, keys: Keys) -> str:
    """The leaf's directory, relative to the checkpoint's. Different keys have different directories.

    A dot stays a dot, where eformer makes a directory level of it; what cannot be part of a file name is escaped.
    """
    names = ([prefix] if prefix else []) + list(keys)
    return "/".join(map(_file_name, names)) or "."


def keys_from_directory(path: str, prefix: str | None) -> Keys:
    """The keys eformer reads from a directory: each slash and each dot is a level."""
    dotted = path.replace("/", ".")
    if prefix and dotted.startswith(f"{prefix}."):
        dotted = dotted[len(prefix) + 1 :]
    return tuple(dotted.split("."))


def _dotted(prefix: str | None, keys: Keys) -> str:
    name = ".".join(keys)
    return f"{prefix}.{name}" if prefix and name else prefix or name


def _file_name(key: str) -> str:
    name = _UNSAFE_WHOLE.get(key) or key.translate(_UNSAFE)
    return f"{name.removesuffix(_LOCK)}%2E__lock" if name.endswith(_LOCK) else name


def _key_text(entry: Any) -> str:
    if isinstance(entry, DictKey):
        return str(entry.key)
    if isinstance(entry, SequenceKey):
        return str(entry.idx)
    if isinstance(entry, GetAttrKey):
        return str(entry.name)
    # Entries of custom nodes, in eformer's words: str() without its brackets and quotes.
    text = str(entry).removeprefix(".")
    if len(text) >= 2 and text[0] == "[" and text[-1] == "]":
        text = text[1:-1]
        if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
            text = text[1:-1]
    return text
