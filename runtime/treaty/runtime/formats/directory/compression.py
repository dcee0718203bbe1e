"""Chunks that are stored compressed: as a codec of zarr 3, which TensorStore applies, in memory.

Blosc with zstd inside: its shuffles put like bits beside each other, which zstd alone does not see. What a chunk says of itself is
compared with the manifest before memory is made for what is in it.
"""

import struct
from functools import lru_cache
from typing import Any, Final

import numpy as np
import tensorstore as ts

from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime._process.forks import use_tensorstore
from treaty.runtime._storage.memory import HostArray
from treaty.runtime.formats.directory.checksum import digest
from treaty.runtime.formats.directory.layout import array_metadata, chunk_name
from treaty.runtime.formats.directory.manifest import Leaf
from treaty.runtime.formats.directory.remote import wait_for
from treaty.schema.dtypes import BY_NAME

_HEAD: Final = struct.Struct("<BBBBIII")  # versions, flags, size of an element; bytes inside, of a block, and stored
_LARGEST: Final = 2**31 - 16  # bytes that Blosc takes at once


def codec_for(leaf: Leaf) -> str | None:
    """Decided by the dtype: bits of floats are alike where those of their neighbours are, integers have bytes of zeros."""
    assert leaf.dtype is not None
    if leaf.chunk_bytes > _LARGEST:
        return None
    row = BY_NAME[leaf.dtype]
    if row.tensorstore is None or row.itemsize == 1:
        return "zstd"
    return "zstd-bitshuffle" if "float" in leaf.dtype or "complex" in leaf.dtype else "zstd-shuffle"


def compressed(leaf: Leaf, wanted: bool) -> Leaf:
    """The leaf as it is stored: arrays of their own with a codec, if that is wanted."""
    return leaf._replace(codec=codec_for(leaf)) if wanted and leaf.is_chunked else leaf


def stored_digest(content: bytes | HostArray) -> str:
    """Digest of the compressed bytes, followed by their count in hex: both are known only after compressing."""
    return f"{digest(content)}{len(content):x}"


def stored_size(found: str) -> int:
    return int(found[32:], 16)


def compress(leaf: Leaf, part: HostArray) -> bytes:
    """The bytes of a chunk's file."""
    assert leaf.dtype is not None
    store, kvstore = _open(leaf)
    source = part if BY_NAME[leaf.dtype].tensorstore is not None else part.view(np.uint8)
    wait_for(store.write(source, can_reference_source_data_indefinitely=True), "compress a chunk")
    return bytes(wait_for(kvstore.read(_name(leaf)), "compress a chunk").value)


def decompress(leaf: Leaf, content: HostArray, memory: HostArray) -> None:
    """Fill the memory of a chunk with what its file holds."""
    assert leaf.dtype is not None
    if len(content) < _HEAD.size:
        raise CorruptCheckpointError(f"expected a compressed chunk, got {len(content)} bytes")
    *_, inside, _, stored = _HEAD.unpack(content[: _HEAD.size].tobytes())
    if (inside, stored) != (leaf.chunk_bytes, len(content)):
        raise CorruptCheckpointError(
            f"expected {leaf.chunk_bytes} bytes in {len(content)}, got a chunk that says {inside} in {stored}"
        )
    store, kvstore = _open(leaf)
    wait_for(kvstore.write(_name(leaf), content.tobytes()), "decompress a chunk")
    target = memory if BY_NAME[leaf.dtype].tensorstore is not None else memory.view(np.uint8)
    try:
        ts.array(target).write(store).result()
    except ValueError as error:
        raise CorruptCheckpointError(f"expected a compressed chunk, got {str(error)[:100]}") from None


def _open(leaf: Leaf) -> tuple[Any, Any]:
    """An array of one chunk, in memory of its own."""
    use_tensorstore()
    context = ts.Context({"cache_pool": {"total_bytes_limit": 0}})
    kvstore = wait_for(ts.KvStore.open({"driver": "memory"}, context=context), "make room for a chunk")
    store = wait_for(
        ts.open(_spec(leaf._replace(shape=leaf.chunks, checksums=(), sizes=())), context=context), "open it"
    )
    return store, kvstore


@lru_cache
def _spec(chunk: Leaf) -> dict[str, Any]:
    return {
        "driver": "zarr3",
        "kvstore": {"driver": "memory"},
        "metadata": array_metadata(chunk),
        "open": True,
        "assume_metadata": True,
        "store_data_equal_to_fill_value": True,
        "fill_missing_data_reads": False,
    }


def _name(leaf: Leaf) -> str:
    return chunk_name((0,) * len(leaf.chunks))
