"""Trees of dicts, lists, scalars and arrays to MessagePack and back, in memory and in files."""

import os
from typing import Any

from treaty.runtime._storage.files import read_buffer, write_pieces
from treaty.runtime.formats.msgpack.decode import decode
from treaty.runtime.formats.msgpack.encode import CHUNK_BYTES, encode
from treaty.runtime.formats.msgpack.join import join


def pack(tree: object, *, chunk_bytes: int = CHUNK_BYTES, as_flax: bool = False) -> bytes:
    """The bytes of a tree; arrays over `chunk_bytes` are stored in parts. `as_flax` also writes what does not come back."""
    return join(encode(tree, chunk_bytes=chunk_bytes, as_flax=as_flax))


def unpack(data: Any) -> Any:
    """The tree that any buffer holds; its arrays are read-only views of the buffer."""
    return decode(data)


def write_file(
    path: str | os.PathLike[str], tree: object, *, chunk_bytes: int = CHUNK_BYTES, as_flax: bool = False
) -> None:
    """Stream a tree to a file that replaces `path` as a whole; .gz and .zst compress it."""
    write_pieces(path, encode(tree, chunk_bytes=chunk_bytes, as_flax=as_flax))


def read_file(path: str | os.PathLike[str]) -> Any:
    """The tree in a file; its arrays are views of the mapped file."""
    return unpack(read_buffer(path))
