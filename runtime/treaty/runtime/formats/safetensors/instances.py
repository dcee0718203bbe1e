"""Instances and state dicts as safetensors: one file, or shards and an index."""

import os
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from treaty.runtime._restore.options import Options, RestoreOptions
from treaty.runtime._restore.pipeline import restore as run
from treaty.runtime._save.check import checked
from treaty.runtime._storage.overtaken import begin_again
from treaty.runtime.formats.safetensors.files import PathLike
from treaty.runtime.formats.safetensors.members import known_safetensors
from treaty.runtime.formats.safetensors.source import SafetensorsSource, dump
from treaty.schema import Schema
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

    Tensors are named by their keys, joined with dots; what is not an array goes into the metadata. Arrays are written from
    where they are. With a `keymap` names and layouts are those of its stored side. Shards and index of an earlier save
    under this name are removed. `cls` names the generic alias where the class of `state` alone does not say it.
    """
    found = checked(state, cls, keymap)
    dump(path, found.tree, max_shard_bytes=max_shard_bytes, metadata=metadata, ordered=found.ordered)


@overload
def restore(path: PathLike, cls: type[_T], **options: Unpack[RestoreOptions]) -> _T: ...
@overload
def restore(path: PathLike, cls: _T, **options: Unpack[RestoreOptions]) -> _T: ...
def restore(path: PathLike, cls: Any, **options: Unpack[RestoreOptions]) -> Any:
    """Build `cls`, a class, generic alias or template, from a file, from an index, or from the shards of `path`.

    Files are mapped, not read: host arrays are read-only views of them. Fields of jax.Array get one transfer;
    `into="numpy"` keeps all arrays on the host. A `keymap` says which tensors are which fields; `dims` are also sizes
    that it may need.
    """
    return begin_again(
        os.fspath(path),
        partial(known_safetensors, os.fspath(path)),
        lambda: run(SafetensorsSource(path), cls, Options(**options)),
    )


def load(path: PathLike, *, schema: Schema | None = None) -> tuple[dict[str, Any], dict[str, str]]:
    """The state dict in a file or in shards, and the metadata. Names are split at dots, or where the schema has keys."""
    place = os.fspath(path)

    def read() -> tuple[dict[str, Any], dict[str, str]]:
        source = SafetensorsSource(path)
        return source.whole(schema), dict(source.metadata)

    return begin_again(place, partial(known_safetensors, place), read)
