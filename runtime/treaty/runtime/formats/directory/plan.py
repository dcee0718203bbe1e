"""What one process has to write: the leaves of a state, which of them share files, and its own parts of the others."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import product
from typing import Any

import jax
import numpy as np
from attrs import evolve, field, frozen
from jax.sharding import Sharding, SingleDeviceSharding

from treaty.runtime._errors import show_keys
from treaty.runtime._lazy import LazyArray, as_bytes
from treaty.runtime._state.declared import declared_arrays
from treaty.runtime._storage.memory import HostArray, copied
from treaty.runtime._trees import check_depth, flatten, is_stored_array
from treaty.runtime.formats.directory.base import BaseManifest
from treaty.runtime.formats.directory.checksum import digest
from treaty.runtime.formats.directory.compression import compress, stored_digest
from treaty.runtime.formats.directory.layout import (
    CHUNK_BYTES,
    PACK_BYTES,
    SMALL_BYTES,
    TILE_BYTES,
    Start,
    chunk_number,
    chunk_shape,
    tile_shape,
)
from treaty.runtime.formats.directory.manifest import VALUES, Leaf
from treaty.runtime.formats.directory.remembered import ChunkDigests, record_of
from treaty.runtime.formats.directory.shares import Share, first_of, shares
from treaty.runtime.formats.msgpack.encode import encode
from treaty.schema import Schema, TreatyError
from treaty.schema.dtypes import BY_NAME


@frozen
class Piece:
    """A part of an array, whole chunks from the element `start` on, and what of it this process writes."""

    leaf: int
    start: Start
    source: Any  # a numpy array, a jax array on one device, or a lazy array
    record: ChunkDigests | None = None  # of the jax array that it is a part of
    only: frozenset[Start] | None = None  # the chunks that this process writes; None for all


@frozen
class Pack:
    """A MessagePack file of whole leaves, by number. Process 0 writes it; what the others have must be the same."""

    name: str
    leaves: Mapping[int, Any]


@frozen
class SavePlan:
    schema: Schema
    dims: Mapping[str, int]
    metadata: Mapping[str, Any]
    leaves: tuple[Leaf, ...]  # their checksums are not known yet
    packs: tuple[Pack, ...]
    pieces: tuple[Piece, ...]
    # Of several processes only:
    # Arrays that process 0 writes and this process has too; their digests are sent for comparison.
    spare: tuple[Piece, ...] = ()
    sums: Mapping[int, Mapping[int, str]] = field(factory=dict)  # those digests, if made at the snapshot
    owners: Mapping[int, int] = field(factory=dict)  # on process 0: arrays that one other process has alone
    shards: tuple[Start | None, ...] = ()  # the shape of a shard of each leaf; None for what is not an array
    axes: Mapping[tuple[str, ...], tuple[int, ...]] = field(factory=dict)  # of arrays in shards: those with a name
    revisions: Mapping[str, int] = field(factory=dict)  # of the classes, by symbol
    base: BaseManifest | None = None  # the checkpoint whose files may be linked
    compress: bool = False  # the chunks of arrays of their own
    step: Mapping[str, Any] = field(factory=dict)  # what a manager notes of it
    advance: Callable[[int], None] = lambda _: None  # called with bytes that are written


def plan_tree(tree: Any, schema: Schema, dims: Mapping[str, int], metadata: Mapping[str, Any] | None) -> SavePlan:
    """Lay out a state dict that fits the schema; lazy arrays are read when they are written."""
    flat = list(flatten(tree)) or [((), {})]  # of an empty class, its empty node
    values: dict[int, Any] = {}
    small: dict[int, Any] = {}
    large: dict[int, Any] = {}
    for number, (path, value) in enumerate(flat):
        check_depth(path)
        if not is_stored_array(value):
            values[number] = hex(value) if _is_huge(value) else value
        elif _is_small(value, path):
            small[number] = value
        else:
            large[number] = value
    _check_values(values, [path for path, _ in flat])
    packs = tuple(_packs(values, small))
    files = {number: index for index, pack in enumerate(packs) for number in pack.leaves}
    axes = _named_axes(schema, tree) if any(_has_shards(value) for value in large.values()) else {}
    leaves = tuple(
        _leaf(path, value, files.get(number), axes.get(path, ())) for number, (path, value) in enumerate(flat)
    )
    plan = SavePlan(schema, dims, _checked_metadata(metadata), leaves, packs, (), axes=axes)
    if jax.process_count() == 1:
        return evolve(plan, pieces=tuple(piece for item in large.items() for piece in _pieces(*item)))
    dealt = shares([(number, leaves[number], value) for number, value in large.items() if _is_spread(value)])
    return evolve(
        plan,
        pieces=tuple(
            piece
            for number, value in large.items()
            if _is_own(value)
            for piece in (_dealt(number, value, dealt[number]) if number in dealt else _pieces(number, value))
        ),
        spare=tuple(piece for item in large.items() if _is_spare(item[1]) for piece in _pieces(*item)),
        owners={number: owner for number, value in large.items() if (owner := _only_owner(value))},
        shards=tuple(_shard_shape(value) if is_stored_array(value) else None for _, value in flat),
    )


def snapshot(plan: SavePlan) -> SavePlan:
    """The plan with every array as it is now: numpy arrays are copied, so is what is on accelerators.

    A jax array in host memory is only referred to: it is immutable, and JAX neither donates nor frees memory that numpy
    looks at.
    """
    if jax.default_backend() != "cpu":  # all copies begin before the first is waited for
        for piece in (*plan.pieces, *plan.spare):
            if isinstance(piece.source, jax.Array):
                piece.source.copy_to_host_async()
    pieces, spare = (
        tuple(evolve(piece, source=_kept(piece.source)) for piece in some)
        for some in (plan.pieces, [one for one in plan.spare if not isinstance(one.source, np.ndarray)])
    )
    packs = tuple(
        evolve(pack, leaves={number: _kept(on_host(value)) for number, value in pack.leaves.items() if is_here(value)})
        for pack in plan.packs
    )
    spared = [one for one in plan.spare if isinstance(one.source, np.ndarray)]
    sums = {one.leaf: digests_of(one, plan.leaves[one.leaf]) for one in spared}
    return evolve(plan, pieces=pieces, packs=packs, spare=spare, sums=sums)


def chunks_of(piece: Piece, leaf: Leaf) -> Iterator[tuple[Start, HostArray]]:
    """Each chunk of a piece, by its first element."""
    source = np.asarray(piece.source)
    for inner in product(*(range(0, size, chunk) for size, chunk in zip(source.shape, leaf.chunks, strict=True))):
        start = tuple(map(sum, zip(piece.start, inner, strict=True)))
        if piece.only is not None and start not in piece.only:
            continue
        yield start, source[tuple(slice(a, a + size) for a, size in zip(inner, leaf.chunks, strict=True))]


def digests_of(piece: Piece, leaf: Leaf) -> dict[int, str]:
    """The digests of a piece's chunks as they are stored, by their numbers."""
    found = array_digest if leaf.codec is None else lambda part: stored_digest(compress(leaf, part))
    return {chunk_number(leaf, start): found(part) for start, part in chunks_of(piece, leaf)}


def array_digest(array: HostArray) -> str:
    return digest(as_bytes(array))


def is_here(value: Any) -> bool:
    """Whether this process has something of a leaf; arrays of other processes' devices are empty shells here."""
    return not isinstance(value, jax.Array) or value.size == 0 or jax.process_index() in _owners(value.sharding)


def on_host(value: Any) -> Any:
    """A leaf of a shared file; an array that all processes hold whole is taken as this one has it."""
    if isinstance(value, LazyArray):
        return value.read()
    if not isinstance(value, jax.Array) or value.is_fully_addressable:
        return value
    return np.asarray(value.addressable_shards[0].data) if value.size else np.empty(value.shape, value.dtype)


def _kept(value: Any) -> Any:
    if isinstance(value, jax.Array):
        return np.asarray(value)
    return copied(value) if isinstance(value, np.ndarray) else value


def _leaf(path: tuple[str, ...], value: Any, file: int | None, axes: Sequence[int]) -> Leaf:
    if not is_stored_array(value):
        return Leaf(path, file=file, is_hex=_is_huge(value))
    leaf = Leaf(path, _dtype_name(value.dtype), tuple(value.shape), file)
    return leaf if file is not None else chunked(leaf, _shard_shape(value), axes)


def chunked(leaf: Leaf, shard: Start | None, axes: Sequence[int]) -> Leaf:
    """The leaf as an array of its own, whose shards have a shape; the axes are those that a mesh may cut."""
    assert leaf.dtype is not None
    assert shard is not None
    itemsize = BY_NAME[leaf.dtype].itemsize
    tile = shard if shard == leaf.shape else tile_shape(shard, leaf.shape, itemsize, TILE_BYTES, axes)
    return Leaf(leaf.path, leaf.dtype, leaf.shape, chunks=chunk_shape(tile, itemsize, CHUNK_BYTES))


def _has_shards(value: Any) -> bool:
    return _shard_shape(value) != tuple(value.shape)


def _named_axes(schema: Schema, tree: Any) -> dict[tuple[str, ...], tuple[int, ...]]:
    """By the path of an array, those of its axes whose size has a name: shardings are given by these."""
    found = declared_arrays(schema, tree)
    return {path: tuple(i for i, names in enumerate(one.axes) if names) for path, one in found.items()}


def layout() -> str:
    """What decides which leaves share files and how arrays are cut, beside their shapes."""
    return f"chunks of {CHUNK_BYTES} bytes, or {TILE_BYTES} in shards, for arrays of {SMALL_BYTES}"


def _is_huge(value: Any) -> bool:
    return type(value) is int and not -(1 << 63) <= value < 1 << 64


def _is_small(value: Any, path: tuple[str, ...]) -> bool:
    _check_dtype(value, path)
    size = value.nbytes
    if size == 0:
        return True
    if size >= SMALL_BYTES:
        return False
    return _is_whole(value) or value.is_fully_addressable or _first_has_all(value)


def _first_has_all(value: jax.Array) -> bool:
    """Whether process 0, which writes the shared files, holds all of an array that other processes hold, too."""
    owners = _owners(value.sharding)
    return owners == {0} or (value.is_fully_replicated and 0 in owners)


@lru_cache(2**10)
def _owners(sharding: Sharding) -> frozenset[int]:
    """The processes whose devices hold an array."""
    devices: set[Any] = sharding.device_set
    return frozenset(device.process_index for device in devices)


def _only_owner(value: Any) -> int | None:
    """On process 0: the one other process that has an array, all of it."""
    if jax.process_index() != 0 or not isinstance(value, jax.Array) or len(_owners(value.sharding)) != 1:
        return None
    return min(_owners(value.sharding))  # 0 is this one


def _is_spread(value: Any) -> bool:
    """Whether an array lies on devices of several processes."""
    return isinstance(value, jax.Array) and len(_owners(value.sharding)) > 1


def _is_own(value: Any) -> bool:
    """Whether this process writes what it has of a large array. What is whole on each is written by process 0."""
    return jax.process_index() == 0 or not (_is_whole(value) or value.is_fully_addressable)


def _is_spare(value: Any) -> bool:
    return not _is_own(value) and not isinstance(value, LazyArray)  # to compare it, it would have to be read


def _is_whole(value: Any) -> bool:
    """Whether an array has no shards, or is the only one that it has: to ask JAX for that one takes long."""
    if isinstance(value, (np.ndarray, LazyArray)):
        return True
    return isinstance(value.sharding, SingleDeviceSharding) and bool(value.is_fully_addressable)


def _shard_shape(value: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = value.shape
    return shape if _is_whole(value) else tuple(value.sharding.shard_shape(shape))


def _pieces(number: int, value: Any) -> Iterator[Piece]:
    """Each part of an array is written by the one process that holds its first replica; nothing is gathered."""
    record = record_of(value)
    if _is_whole(value):
        native = value if value.dtype.isnative else np.asarray(value).astype(value.dtype.newbyteorder("="))
        yield Piece(number, (0,) * value.ndim, native, record)
        return
    for shard in value.addressable_shards:
        if shard.replica_id == 0:
            yield Piece(number, first_of(shard.index, value.shape), shard.data, record)


def _dealt(number: int, value: jax.Array, share: Share) -> Iterator[Piece]:
    """What this process writes of an array of which others have the same parts."""
    held = {first_of(shard.index, value.shape): shard for shard in value.addressable_shards}
    for start, chunks in share.items():
        yield Piece(number, start, held[start].data, record_of(value), chunks)


def _packs(values: dict[int, Any], small: dict[int, Any]) -> Iterator[Pack]:
    if values:
        yield Pack(VALUES, values)
    batch: dict[int, Any] = {}
    size = count = 0
    for number, value in small.items():
        more = value.nbytes
        if batch and size + more > PACK_BYTES:
            yield Pack(f"small-{count}.msgpack", batch)
            batch, size, count = {}, 0, count + 1
        batch[number] = value
        size += more
    if batch:
        yield Pack(f"small-{count}.msgpack", batch)


def _check_values(values: Mapping[int, Any], paths: Sequence[tuple[str, ...]]) -> None:
    """Refuse what MessagePack does not hold before anything is made where the checkpoint is to be."""
    try:
        encode(values)
    except (TypeError, ValueError, OverflowError):
        for number, value in values.items():
            try:
                encode(value)
            except (TypeError, ValueError, OverflowError) as error:
                at = show_keys(paths[number])
                raise TreatyError(f"expected a value that MessagePack holds, got {error} at {at}") from error
        raise


@cache  # numpy works the name out anew each time
def _dtype_name(dtype: Any) -> str:
    return str(dtype.name)


def _check_dtype(value: Any, path: tuple[str, ...]) -> None:
    if _dtype_name(value.dtype) not in BY_NAME:
        advice = "; declare the field Key[Array, ...]" if value.dtype.name.startswith("key<") else ""
        raise TreatyError(f"expected an array of numbers, got {value.dtype} at {show_keys(path)}{advice}")


def _checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    try:
        found = json.loads(json.dumps(dict(metadata or {}), allow_nan=False))
        if found == metadata or not metadata:
            return dict(found)
    except (TypeError, ValueError, RecursionError) as error:
        raise TreatyError(f"metadata: expected what JSON holds, got {error}") from error
    raise TreatyError("metadata: expected what JSON gives back as it was, got tuples or keys that are not strings")
