"""What goes where: which leaves share a file, and how large arrays are cut into chunks. Decided from shapes alone."""

import json
import math
from collections.abc import Iterator, Sequence
from itertools import product, repeat
from typing import Any, Final

from treaty.runtime._errors import show_keys
from treaty.runtime.formats.directory.manifest import CODECS, Leaf, Manifest
from treaty.schema.dtypes import BY_NAME

SMALL_BYTES: Final = 2**20  # arrays below this share MessagePack files: one file each would cost more than its bytes
PACK_BYTES: Final = 2**23  # of one such file, which is built and read in memory
CHUNK_BYTES: Final = 2**25  # of one chunk, where the shape can be divided so
TILE_BYTES: Final = 2**22  # of one chunk of an array in shards: another mesh may need only a part of each shard
_LARGEST_FACTOR: Final = 16  # by which a tile is cut at once

Start = tuple[int, ...]


def chunk_shape(shape: Sequence[int], itemsize: int, limit: int) -> tuple[int, ...]:
    """The largest chunks of at most `limit` bytes that divide a shape evenly, cut along the first axes that allow it.

    Even chunks need no padding, so a chunk file holds the array's bytes and nothing else. An axis of prime length
    cannot be cut: then the next one is, and if none can be, the chunk is larger than the limit.
    """
    chunks = list(shape)
    for axis, size in enumerate(shape):
        total = math.prod(chunks) * itemsize
        if total <= limit:
            break
        rows = max(1, size * limit // total)
        best = max(divisor for divisor in _divisors(size) if divisor <= rows)
        if best == 1 and rows > 1:
            continue
        chunks[axis] = best
    return tuple(chunks)


def tile_shape(
    shard: Sequence[int], shape: Sequence[int], itemsize: int, limit: int, axes: Sequence[int]
) -> tuple[int, ...]:
    """A part of a shard of about `limit` bytes, such that the array is cut about as often along each of `axes`.

    So a later mesh that cuts the array otherwise reads little that it does not need.
    """
    tile = list(shard)
    while math.prod(tile) * itemsize > limit:
        factors = {axis: _divisors(tile[axis])[1] for axis in axes if tile[axis] > 1}
        cuts = {axis: shape[axis] // tile[axis] for axis, factor in factors.items() if factor <= _LARGEST_FACTOR}
        if not cuts:
            break
        axis = min(cuts, key=lambda one: (cuts[one], one))
        tile[axis] //= factors[axis]
    return tuple(tile)


def chunk_starts(leaf: Leaf) -> Iterator[tuple[Start, str, str, int]]:
    """(first element, file name, checksum, bytes of the file) of every chunk, in row-major order."""
    sizes = leaf.sizes or repeat(leaf.chunk_bytes, len(leaf.checksums))
    for index, checksum, size in zip(product(*map(range, leaf.grid)), leaf.checksums, sizes, strict=True):
        start = tuple(i * chunk for i, chunk in zip(index, leaf.chunks, strict=True))
        yield start, chunk_name(index), checksum, size


def chunk_name(index: Sequence[int]) -> str:
    return ".".join(["c", *map(str, index)])


def chunk_number(leaf: Leaf, start: Start) -> int:
    """Which of the chunks, in row-major order, starts at an element."""
    number = 0
    for first, chunk, count in zip(start, leaf.chunks, leaf.grid, strict=True):
        number = number * count + first // chunk
    return number


def array_metadata(leaf: Leaf) -> dict[str, Any]:
    """The zarr.json of an array. dtypes that zarr has no name for are stored as the bits they are, in bytes."""
    assert leaf.dtype is not None
    name = BY_NAME[leaf.dtype].tensorstore or "uint8"
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(leaf.shape),
        "data_type": name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(leaf.chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": _zero(name),
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, *_compression(leaf.codec, name)],
        "attributes": {"treaty": {"path": show_keys(leaf.path), "dtype": leaf.dtype}},
    }


def metadata_files(leaves: tuple[Leaf, ...]) -> Iterator[tuple[str, bytes]]:
    """What other readers of zarr need, by name; Treaty itself reads the manifest only."""
    arrays = [(number, leaf) for number, leaf in enumerate(leaves) if leaf.is_chunked]
    if arrays:
        yield "zarr.json", b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'
    for number, leaf in arrays:
        yield f"{number}/zarr.json", json.dumps(array_metadata(leaf)).encode()


def sizes_of(manifest: Manifest) -> Iterator[tuple[str, int]]:
    """Every file that a manifest names, and how long it is; those of zarr follow from it, but are not named."""
    for file in manifest.files:
        yield file.name, file.size
    for number, leaf in enumerate(manifest.leaves):
        if leaf.is_chunked:
            for _, chunk, _, size in chunk_starts(leaf):
                yield f"{number}/{chunk}", size


def _compression(codec: str | None, name: str) -> list[dict[str, Any]]:
    if codec is None:
        return []
    size = BY_NAME[name].itemsize
    settings = {"cname": "zstd", "clevel": 1, "shuffle": CODECS[codec], "typesize": size, "blocksize": 0}
    return [{"name": "blosc", "configuration": settings}]


def _zero(name: str) -> Any:
    if name.startswith("complex"):
        return [0.0, 0.0]
    return False if name == "bool" else 0.0 if "float" in name else 0


def _divisors(size: int) -> list[int]:
    """From 1 on; the first behind it is the smallest."""
    small = [divisor for divisor in range(1, math.isqrt(size) + 1) if size % divisor == 0]
    return [*small, *(size // divisor for divisor in small)]
