"""safetensors, as the library and Hugging Face's loaders read and write it: one file, or shards and an index."""

import os
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, TypeVar, overload

from treaty.runtime._convert.keymap import to_fields, to_stored
from treaty.runtime._overtaken import begin_again
from treaty.runtime._state.instances import collector_paused
from treaty.runtime._state.registry import codec_of_class, codec_of_instance
from treaty.runtime._state.state_dict import Into, check_state, from_state_dict, write_state
from treaty.runtime._state.trees import dotted, nest_dotted, on_host
from treaty.runtime.formats import _safetensors_files as files
from treaty.runtime.formats._exact import dicts_of
from treaty.runtime.formats._safetensors_files import PathLike
from treaty.runtime.formats._safetensors_names import NOTE, flatten, nest
from treaty.runtime.formats._safetensors_place import known_safetensors
from treaty.schema import Schema, TreatyError
from treaty.schema.keymap import KeyMap

_T = TypeVar("_T")


def save(
    path: PathLike,
    state: object,
    *,
    cls: Any = None,
    keymap: KeyMap | None = None,
    max_shard_bytes: int | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write an instance to `path`, or to shards of at most so many bytes and `<prefix>.safetensors.index.json`.

    Tensors are named by their keys, joined with dots; what is no array goes into the metadata. Arrays are written from
    where they are. With a `keymap` names and layouts are those of its stored side. Shards and index of an earlier save under this name are removed. `cls` names the generic alias where
    the class of `state` alone does not say it.
    """
    codec = codec_of_instance(state) if cls is None else codec_of_class(cls)
    tree = write_state(codec, state)
    check_state(codec, tree)
    ordered = dicts_of(codec.schema, tree) if keymap is None else set()
    if keymap is not None:
        tree = nest_dotted(to_stored(keymap, tree))
    dump(path, tree, max_shard_bytes=max_shard_bytes, metadata=metadata, ordered=ordered)


@overload
def restore(
    path: PathLike,
    cls: type[_T],
    *,
    keymap: KeyMap | None = None,
    dims: Mapping[str, int] | None = None,
    into: Into | None = None,
) -> _T: ...
@overload
def restore(
    path: PathLike,
    cls: _T,
    *,
    keymap: KeyMap | None = None,
    dims: Mapping[str, int] | None = None,
    into: Into | None = None,
) -> _T: ...
def restore(
    path: PathLike,
    cls: Any,
    *,
    keymap: KeyMap | None = None,
    dims: Mapping[str, int] | None = None,
    into: Into | None = None,
) -> Any:
    """Build `cls`, a class, generic alias or template, from a file, from an index, or from the shards of `path`.

    Files are mapped, not read: host arrays are read-only views of them. Fields of jax.Array get one transfer;
    `into="numpy"` keeps all arrays on the host. A `keymap` says which tensors are which fields; `dims` are also sizes
    that it may need.
    """
    place = os.fspath(path)
    look = partial(known_safetensors, place)
    return begin_again(place, look, lambda: restore_once(path, cls, keymap=keymap, dims=dims, into=into))


def restore_once(
    path: PathLike, cls: Any, *, keymap: KeyMap | None, dims: Mapping[str, int] | None, into: Into | None
) -> Any:
    """As `restore`, for a caller who looks after replacements."""
    is_class = isinstance(cls, type) or hasattr(cls, "__origin__")
    codec = codec_of_class(cls) if is_class else codec_of_instance(cls)
    with collector_paused():
        tensors, metadata = files.read(path)
        tree = nest(tensors, metadata, codec.schema) if keymap is None else {}
    if keymap is not None:
        named = dotted(nest(tensors, metadata, None)) if NOTE in metadata else tensors
        tree = on_host(to_fields(keymap, named, dims))
    return from_state_dict(cls, tree, dims=dims, into=into)


def dump(
    path: PathLike,
    tree: Mapping[str, Any],
    *,
    max_shard_bytes: int | None = None,
    metadata: Mapping[str, str] | None = None,
    ordered: Collection[tuple[str, ...]] | None = None,
) -> None:
    """As `save`, for a state dict: nested dicts of arrays, lazy ones too, and Python values.

    The order of its dicts is kept, or of those that are `ordered`.
    """
    said = {"format": "pt", **(metadata or {})}  # the format's name for weights: without it some loaders refuse a file
    if not all(isinstance(text, str) for pair in said.items() for text in pair) or NOTE in said:
        raise TreatyError(f"expected metadata of text by name, and none at {NOTE!r}, got {metadata!r}")
    with collector_paused():
        named = flatten(tree, ordered)
    files.write(path, named.tensors, said if named.note is None else {**said, NOTE: named.note}, max_shard_bytes)


def load(path: PathLike, *, schema: Schema | None = None) -> tuple[dict[str, Any], dict[str, str]]:
    """The state dict in a file or in shards, and the metadata. Names are split at dots, or where the schema has keys."""
    place = os.fspath(path)
    return begin_again(place, partial(known_safetensors, place), lambda: load_once(path, schema=schema))


def load_once(path: PathLike, *, schema: Schema | None = None) -> tuple[dict[str, Any], dict[str, str]]:
    """As `load`, for a caller who looks after replacements."""
    with collector_paused():
        tensors, metadata = files.read(path)
        tree = nest(tensors, metadata, schema)
    return tree, {name: text for name, text in metadata.items() if name != NOTE}
