"""`tensorstore_index.json`: which arrays a checkpoint of eformer's layout holds.

    {"format": "tensorstore", "version": "2.0", "arrays": [entry, …], "prefixes": {"model": [entry, …]}}
    entry: {"path": "model/blocks/0/w", "shape": [8, 4], "dtype": "bfloat16"}

Version 1.0 has `arrays` only; eformer also writes its own version number, so the sections decide and not the number.
Treaty adds two members to an entry, and only where they say something that eformer cannot: `keys`, where the path
split at slashes and dots is not the leaf's place in the tree, and `leaf`, where it was not a jax array.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from treaty.runtime._errors import CorruptCheckpointError, LeafError, show_path
from treaty.runtime._trees import nest
from treaty.runtime.formats.eformer.leaf_paths import Keys, directory, keys_from_directory


@frozen
class Entry:
    """One stored leaf. `leaf` says what it was: see `leaf_kinds`."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    keys: Keys
    leaf: str = "jax"

    @property
    def name(self) -> str:
        return ".".join(self.keys)

    def __str__(self) -> str:
        return f"{show_path(self.keys)} ({self.path})"


@frozen
class Index:
    """`arrays` is None when no tree was saved without a prefix; `one_tree` is version 1.0, which knows no prefixes."""

    arrays: tuple[Entry, ...] | None = None
    prefixes: Mapping[str, tuple[Entry, ...]] = field(factory=dict)
    one_tree: bool = False

    def section(self, prefix: str | None) -> tuple[Entry, ...]:
        """The entries to load for `prefix`; errors in eformer's words."""
        available = list(self.prefixes)
        if prefix:
            if prefix in self.prefixes:
                return self.prefixes[prefix]
            if self.one_tree and self.arrays is not None:
                return _below(prefix, self.arrays)
            raise LeafError(f"Prefix {prefix!r} not found. Available: {available}")
        if self.arrays is None:
            raise LeafError(f"No prefix specified. Available prefixes: {available}")
        return self.arrays

    def with_section(self, prefix: str | None, entries: tuple[Entry, ...] | None) -> "Index":
        if not prefix:
            return evolve(self, arrays=entries, one_tree=False)
        others = {name: kept for name, kept in self.prefixes.items() if name != prefix}
        prefixes = others if entries is None else {**others, prefix: entries}
        return evolve(self, prefixes=prefixes, one_tree=False)


def parse(data: bytes, where: str) -> Index:
    try:
        index = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptCheckpointError(f"expected JSON, got damaged text in {where}: {error}") from error
    if not isinstance(index, dict):
        raise CorruptCheckpointError(f"expected an object, got {type(index).__name__} in {where}")
    if index.get("format") != "tensorstore":
        raise CorruptCheckpointError(f"Unsupported index format: {index.get('format')!r} in {where}")
    prefixes = index.get("prefixes", {})
    if not isinstance(prefixes, dict):
        raise CorruptCheckpointError(f"expected an object as prefixes, got {type(prefixes).__name__} in {where}")
    arrays = _section(index["arrays"], None, where) if "arrays" in index else None
    if arrays is None and "prefixes" not in index:
        raise CorruptCheckpointError(f"expected arrays or prefixes, got neither in {where}")
    sections = {name: _section(entries, name, where) for name, entries in prefixes.items()}
    return Index(arrays, sections, one_tree="prefixes" not in index)


def render(index: Index) -> bytes:
    value: dict[str, Any] = {"format": "tensorstore", "version": "2.0"}
    value["prefixes"] = {name: _render(entries, name) for name, entries in index.prefixes.items()}
    if index.arrays is not None:
        value["arrays"] = _render(index.arrays, None)
    return json.dumps(value, indent=2).encode()


def nested(entries: Sequence[Entry], leaves: Sequence[Any]) -> Any:
    """The tree of leaves by the keys of their entries; an entry without keys is all there is."""
    if any(not entry.keys for entry in entries) and len(entries) > 1:
        raise CorruptCheckpointError(f"expected one leaf, got {len(entries)}, one of them without keys")
    return nest(zip((entry.keys for entry in entries), leaves, strict=True))


def check_places(prefix: str | None, entries: Sequence[Entry], index: Index) -> None:
    """No directory may hold two leaves, nor one leaf's chunks another leaf's directory."""
    others = index.with_section(prefix, None)
    sections = [(prefix, entries), (None, others.arrays or ()), *others.prefixes.items()]
    owners: dict[str, str] = {}
    for name, section in sections:
        for entry in section:
            owner = f"{show_path(entry.keys)} of " + (f"prefix {name!r}" if name else "the tree without a prefix")
            if entry.path in owners:
                raise LeafError(
                    f"expected a directory for each leaf, got {entry.path} for {owners[entry.path]} and {owner}"
                )
            owners[entry.path] = owner
    for path, owner in owners.items():
        parents = [path[:i] for i, letter in enumerate(path) if letter == "/"] + (["."] if path != "." else [])
        for parent in parents:
            if parent in owners:
                raise LeafError(f"expected no leaf inside another's directory, got {owner} inside {owners[parent]}")


def _below(prefix: str, arrays: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """In version 1.0 a prefix is only in the paths."""
    if not all(entry.path.startswith(f"{prefix}/") for entry in arrays):
        raise LeafError(
            f"Prefix {prefix!r} not found. This index is of version 1.0: load its one tree with prefix=None"
        )
    return tuple(evolve(entry, keys=keys_from_directory(entry.path, prefix)) for entry in arrays)


def _render(entries: Sequence[Entry], prefix: str | None) -> list[dict[str, Any]]:
    rendered = []
    for entry in entries:
        value: dict[str, Any] = {"path": entry.path, "shape": list(entry.shape), "dtype": entry.dtype}
        if entry.keys != keys_from_directory(entry.path, prefix):
            value["keys"] = list(entry.keys)
        if entry.leaf != "jax":
            value["leaf"] = entry.leaf
        rendered.append(value)
    return rendered


def _section(entries: Any, prefix: str | None, where: str) -> tuple[Entry, ...]:
    if not isinstance(entries, list):
        raise CorruptCheckpointError(f"expected a list of arrays, got {type(entries).__name__} in {where}")
    parsed = tuple(_entry(entry, prefix, where) for entry in entries)
    seen: set[str] = set()
    for entry in parsed:
        if entry.path in seen:
            raise CorruptCheckpointError(f"expected each path once, got {entry} twice in {where}")
        seen.add(entry.path)
    return parsed


def _entry(entry: Any, prefix: str | None, where: str) -> Entry:
    if not isinstance(entry, dict) or not isinstance(path := entry.get("path"), str):
        raise CorruptCheckpointError(f"expected an object with a path, got {str(entry)[:80]} in {where}")
    if not _stays_inside(path):
        raise CorruptCheckpointError(f"expected a path inside the checkpoint, got {path!r} in {where}")
    shape, dtype = entry.get("shape"), entry.get("dtype")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise CorruptCheckpointError(f"expected a list of sizes as shape, got {shape!r} for {path} in {where}")
    if not isinstance(dtype, str):
        raise CorruptCheckpointError(f"expected the name of a dtype, got {dtype!r} for {path} in {where}")
    keys, leaf = entry.get("keys"), entry.get("leaf", "jax")
    if keys is None:
        keys = keys_from_directory(path, prefix)
    elif not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise CorruptCheckpointError(f"expected a list of strings as keys, got {keys!r} for {path} in {where}")
    elif path != directory(prefix, tuple(keys)):
        raise CorruptCheckpointError(f"expected keys that fit the path, got {keys!r} for {path} in {where}")
    if not isinstance(leaf, str):
        raise CorruptCheckpointError(f"expected the kind of a leaf, got {leaf!r} for {path} in {where}")
    return Entry(path, tuple(shape), dtype, tuple(keys), leaf)


def _stays_inside(path: str) -> bool:
    if path == ".":  # a tree that is one array
        return True
    return "\\" not in path and "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))
