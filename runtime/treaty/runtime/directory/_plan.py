"""What one process has to write: the leaves of a state, which of them share files, and its own parts of the others."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jax
import numpy as np
from attrs import evolve, frozen
from jax.sharding import SingleDeviceSharding

from treaty.runtime._errors import show_keys
from treaty.runtime._lazy import LazyArray
from treaty.runtime._memory import copied
from treaty.runtime._state.explain import dims_of
from treaty.runtime._state.registry import codec_of_class, codec_of_instance
from treaty.runtime._state.state_dict import check_state, write_state
from treaty.runtime.directory._layout import CHUNK_BYTES, PACK_BYTES, SMALL_BYTES, Start, chunk_shape
from treaty.runtime.directory._manifest import VALUES, Leaf
from treaty.schema import Schema, TreatyError
from treaty.schema.dtypes import BY_NAME


@frozen
class Piece:
    """A part of an array that this process writes: whole chunks, from the element `start` on."""

    leaf: int
    start: Start
    source: Any  # a numpy array, a jax array on one device, or a lazy array


@frozen
class Pack:
    """A MessagePack file of whole leaves, by number. Process 0 writes it."""

    name: str
    leaves: Mapping[int, Any]


@frozen
class Plan:
    schema: Schema
    dims: Mapping[str, int]
    metadata: Mapping[str, Any]
    leaves: tuple[Leaf, ...]  # their checksums are not known yet
    packs: tuple[Pack, ...]
    pieces: tuple[Piece, ...]


def plan_save(state: Any, cls: Any, metadata: Mapping[str, Any] | None) -> Plan:
    """Check a state against its class, and lay it out. Nothing is copied or moved."""
    codec = codec_of_instance(state) if cls is None else codec_of_class(cls)
    tree = write_state(codec, state)
    check_state(codec, tree)
    return plan_tree(tree, codec.schema, dims_of(codec.schema, tree), metadata)


def plan_tree(tree: Any, schema: Schema, dims: Mapping[str, int], metadata: Mapping[str, Any] | None) -> Plan:
    """Lay out a state dict that fits the schema; lazy arrays are read when they are written."""
    flat = list(flatten(tree))
    values: dict[int, Any] = {}
    small: dict[int, Any] = {}
    large: dict[int, Any] = {}
    for number, (path, value) in enumerate(flat):
        if not isinstance(value, (np.ndarray, jax.Array, LazyArray)):
            values[number] = hex(value) if _is_huge(value) else value
        elif _is_small(value, path):
            small[number] = value
        else:
            large[number] = value
    packs = tuple(_packs(values, small))
    files = {number: index for index, pack in enumerate(packs) for number in pack.leaves}
    leaves = tuple(_leaf(path, value, files.get(number)) for number, (path, value) in enumerate(flat))
    pieces = tuple(piece for number, value in large.items() for piece in _pieces(number, value))
    return Plan(schema, dims, _checked_metadata(metadata), leaves, packs, pieces)


def flatten(tree: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The leaves of a state dict by path; an empty dict is a leaf, so that empty nodes are kept."""
    pending: list[tuple[tuple[str, ...], Any]] = [((), tree)]
    while pending:
        path, value = pending.pop()
        if type(value) is dict and value:
            pending.extend(((*path, key), value[key]) for key in reversed(value))
        else:
            yield path, value


def snapshot(plan: Plan) -> Plan:
    """The plan with every array as it is now: numpy arrays are copied, so is what is on accelerators.

    A jax array in host memory is only referred to: it is immutable, and JAX neither donates nor frees memory that numpy
    looks at.
    """
    if jax.default_backend() != "cpu":  # all copies begin before the first is waited for
        for piece in plan.pieces:
            if isinstance(piece.source, jax.Array):
                piece.source.copy_to_host_async()
    pieces = tuple(Piece(piece.leaf, piece.start, _kept(piece.source)) for piece in plan.pieces)
    packs = tuple(
        evolve(pack, leaves={number: _kept(on_host(value)) for number, value in pack.leaves.items()})
        for pack in plan.packs
    )
    return evolve(plan, pieces=pieces, packs=packs)


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


def _leaf(path: tuple[str, ...], value: Any, file: int | None) -> Leaf:
    if not isinstance(value, (np.ndarray, jax.Array, LazyArray)):
        return Leaf(path, file=file, is_hex=_is_huge(value))
    dtype, shape = _dtype_name(value.dtype), tuple(value.shape)
    if file is not None:
        return Leaf(path, dtype, shape, file)
    return Leaf(path, dtype, shape, chunks=chunk_shape(_shard_shape(value), value.dtype.itemsize, CHUNK_BYTES))


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
    """Whether process 0, which writes the shared files, holds all of an array that is spread over processes."""
    devices: set[Any] = value.sharding.device_set
    return value.is_fully_replicated and any(device.process_index == 0 for device in devices)


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
    is_whole = _is_whole(value)
    if (is_whole or value.is_fully_addressable) and jax.process_index() != 0:
        return
    if is_whole:
        native = value if value.dtype.isnative else np.asarray(value).astype(value.dtype.newbyteorder("="))
        yield Piece(number, (0,) * value.ndim, native)
        return
    for shard in value.addressable_shards:
        if shard.replica_id == 0:
            start = tuple(one.indices(size)[0] for one, size in zip(shard.index, value.shape, strict=True))
            yield Piece(number, start, shard.data)


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
