"""State dicts as bytes and files, and values by way of them."""

import gzip
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime._flax.read import restore
from treaty.runtime._flax.registry import has_own_code
from treaty.runtime._flax.write import to_host_state
from treaty.runtime._state.registry import codec_of_instance
from treaty.runtime._storage.files import read_buffer
from treaty.runtime.formats import msgpack
from treaty.runtime.formats.msgpack import instances
from treaty.runtime.formats.msgpack.encode import CHUNK_BYTES
from treaty.runtime.formats.msgpack.instances import join_pieces, save_file

FilePath = str | os.PathLike[str]
_assigned: Mapping[str, Any] = {"MAX_CHUNK_SIZE": CHUNK_BYTES}


def ask_there(names: Mapping[str, Any]) -> None:
    """Look MAX_CHUNK_SIZE up in these names from now on, where users assign it: those of a module that imports this one."""
    global _assigned
    _assigned = names


def chunk_bytes() -> int:
    """The size of an array above which it is stored in parts."""
    size: int = _assigned["MAX_CHUNK_SIZE"]
    return size


def msgpack_serialize(pytree: Any, in_place: bool = False) -> bytes:
    """The bytes of a tree of dicts, lists, numbers, text and arrays; for other types there is `to_bytes`.

    Without `in_place` dicts are written in the order of their keys, as Flax does. The tree is never changed.
    """
    if not in_place:
        pytree = jax.tree_util.tree_map(lambda leaf: leaf, pytree)
    return msgpack.pack(pytree, chunk_bytes=chunk_bytes(), as_flax=True)


def msgpack_restore(encoded_pytree: bytes) -> Any:
    """The tree that any buffer of bytes holds. Its arrays are read-only and share the buffer's memory."""
    return msgpack.unpack(encoded_pytree)


def to_bytes(target: Any) -> bytes:
    """The state of a value as bytes."""
    if has_own_code(type(target)):
        return join_pieces(target, chunk_bytes=chunk_bytes())
    return msgpack.pack(to_host_state(target), chunk_bytes=chunk_bytes(), as_flax=True)


def from_bytes(target: Any, encoded_bytes: bytes) -> Any:
    """A copy of `target` with the values in the bytes, whose arrays must have the shapes and dtypes of the target's."""
    if has_own_code(type(target)):
        return instances.from_bytes(target, encoded_bytes, into="numpy")
    return restore(target, msgpack.unpack(encoded_bytes), dtypes=True)


def save_to_file(target: Any, filepath: FilePath) -> None:
    """Write a value to a file, whole or not at all; the suffixes .gz and .zst compress it. Makes missing directories."""
    Path(filepath).parent.mkdir(parents=True, exist_ok=True)
    if has_own_code(type(target)):
        return save_file(os.fspath(filepath), codec_of_instance(target), target, chunk_bytes())
    msgpack.write_file(filepath, to_host_state(target), chunk_bytes=chunk_bytes(), as_flax=True)


def load_from_file(target: Any, filepath: FilePath) -> Any:
    """`from_bytes` for a file."""
    return from_bytes(target, read_buffer(filepath))


def compress_bytes(data: bytes) -> bytes:
    """The bytes in gzip's form, always the same for the same data."""
    return gzip.compress(data, compresslevel=6, mtime=0)


def decompress_bytes(data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptCheckpointError(f"expected gzip data, got {len(data)} bytes of something else: {error}") from error


def to_compressed_bytes(target: Any) -> bytes:
    return compress_bytes(to_bytes(target))


def from_compressed_bytes(target: Any, compressed_data: bytes) -> Any:
    """`from_bytes` for what `to_compressed_bytes` made."""
    return from_bytes(target, decompress_bytes(compressed_data))
