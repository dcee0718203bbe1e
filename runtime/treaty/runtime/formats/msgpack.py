"""MessagePack, byte for byte as Flax writes it: trees of dicts, lists, scalars and arrays to bytes and back."""

import os
from pathlib import Path
from typing import Any

from treaty.runtime._files import map_contents, read_buffer, write_pieces
from treaty.runtime.formats._join import join
from treaty.runtime.formats._msgpack_decode import decode
from treaty.runtime.formats._msgpack_encode import CHUNK_BYTES, encode


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


def read_tree(path: str | os.PathLike[str], folder: Path) -> Any:
    """As `read_file`, with little memory: `folder` takes what is compressed, and arrays in parts are lazy ones."""
    return decode(map_contents(path, folder), lazy=True)
