"""Saving: every process writes its own chunks through TensorStore, process 0 the rest, and then the manifest."""

import json
import secrets
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import tensorstore as ts
from attrs import evolve

from treaty.runtime._errors import show_keys
from treaty.runtime._lazy import LazyArray, by_bands
from treaty.runtime.directory._hash import checksum
from treaty.runtime.directory._layout import Start, array_metadata, chunk_name, chunk_number, metadata_files
from treaty.runtime.directory._manifest import File, Leaf, Manifest
from treaty.runtime.directory._places import Place
from treaty.runtime.directory._plan import Pack, Piece, Plan, on_host
from treaty.runtime.directory._processes import Team
from treaty.runtime.directory._remote import context, wait_for
from treaty.runtime.directory._writes import IN_FLIGHT, Writes
from treaty.runtime.formats import msgpack
from treaty.schema import TreatyError
from treaty.schema.dtypes import BY_NAME

_Sums = dict[int, dict[int, str]]  # leaf -> number of the chunk -> checksum


def write(place: Place, plan: Plan, team: Team) -> None:
    """Write a plan and commit it; whatever goes wrong, what was committed before stays."""
    data = team.agree("begin", lambda: _begin(place))
    error: BaseException | None = None
    sums: _Sums = {}
    files: tuple[File, ...] = ()
    try:
        sums, files = _write_own(place, data, plan, team)
    except BaseException as caught:
        error = caught
    team.tell(error)
    if error is not None and team.index != 0:
        raise error
    team.agree("commit", partial(_commit, place, data, plan, sums, files, team, error))


def _commit(
    place: Place,
    data: str,
    plan: Plan,
    sums: _Sums,
    files: tuple[File, ...],
    team: Team,
    error: BaseException | None,
) -> str:
    try:
        if error is not None:
            raise error
        team.collect()
        _gather(place, data, sums, team)
        place.commit(data, _complete(plan, data, sums, files).to_bytes())
    except BaseException:
        place.abandon(data)
        raise
    return data


def _begin(place: Place) -> str:
    data = f"data-{secrets.token_hex(8)}"
    place.begin()
    try:
        place.prepare(data)
    except BaseException:
        place.abandon(data)
        raise
    return data


def _inside(place: Place, data: str) -> ts.KvStore:
    spec = {**place.kvstore, "path": f"{place.kvstore['path']}{data}/"}
    kvstore: ts.KvStore = wait_for(ts.KvStore.open(spec, context=context()), f"open {place.where}")
    return kvstore


def _array_store(place: Place, data: str, number: int, leaf: Leaf) -> ts.TensorStore:
    """One array, opened by what the manifest says: a missing chunk is an error, and zeros are stored like the rest."""
    spec = {
        "driver": "zarr3",
        "kvstore": {**place.kvstore, "path": f"{place.kvstore['path']}{data}/{number}/"},
        "metadata": array_metadata(leaf),
        "open": True,
        "assume_metadata": True,
        "store_data_equal_to_fill_value": True,
        "fill_missing_data_reads": False,
    }
    store: ts.TensorStore = wait_for(ts.open(spec, context=context()), f"open {show_keys(leaf.path)}")
    return store


def _write_own(place: Place, data: str, plan: Plan, team: Team) -> tuple[_Sums, tuple[File, ...]]:
    kvstore = _inside(place, data)
    is_lazy = any(isinstance(one.source, LazyArray) for one in plan.pieces)  # then what is in flight is in memory
    sums: _Sums = {}
    files: tuple[File, ...] = ()
    with Writes(place, data, IN_FLIGHT // 4 if is_lazy else IN_FLIGHT) as writes:
        stores: dict[int, ts.TensorStore] = {}
        for piece in plan.pieces:
            leaf = plan.leaves[piece.leaf]
            if piece.leaf not in stores:
                stores[piece.leaf] = _array_store(place, data, piece.leaf, leaf)
            for part in _parts(piece, leaf):
                _write_piece(stores[piece.leaf], leaf, part, writes, sums.setdefault(piece.leaf, {}))
        if team.index != 0:
            content = json.dumps(sums).encode()
            writes.add(kvstore.write(_part(team.index), content), _part(team.index), len(content), "its checksums")
        else:
            files = tuple(_write_pack(kvstore, pack, plan, writes) for pack in plan.packs)
            for name, content in metadata_files(plan.leaves):
                writes.add(kvstore.write(name, content), name, len(content), name)
    return sums, files


def _parts(piece: Piece, leaf: Leaf) -> Iterator[Piece]:
    """A lazy array passes chunk by chunk."""
    if not isinstance(piece.source, LazyArray):
        yield piece
        return
    for start, part in by_bands(piece.source, leaf.chunks):
        yield evolve(piece, start=start, source=part)


def _write_piece(store: ts.TensorStore, leaf: Leaf, piece: Piece, writes: Writes, sums: dict[int, str]) -> None:
    """Give the source to TensorStore as it is, chunk by chunk, and hash each while that writes."""
    assert leaf.dtype is not None
    source = np.asarray(piece.source)
    if BY_NAME[leaf.dtype].tensorstore is None:
        source = source.view(np.uint8)
    what = show_keys(leaf.path)
    for inner in product(*(range(0, size, chunk) for size, chunk in zip(source.shape, leaf.chunks, strict=True))):
        part = source[_box(inner, leaf.chunks)]
        start: Start = tuple(map(sum, zip(piece.start, inner, strict=True)))
        index = [first // chunk for first, chunk in zip(start, leaf.chunks, strict=True)]
        future = store[_box(start, leaf.chunks)].write(part, can_reference_source_data_indefinitely=True)
        writes.add(future, f"{piece.leaf}/{chunk_name(index)}", part.nbytes, what)
        sums[chunk_number(leaf, start)] = checksum(np.ascontiguousarray(part).reshape(-1).view(np.uint8))


def _box(start: Start, size: Start) -> tuple[slice, ...]:
    return tuple(slice(first, first + length) for first, length in zip(start, size, strict=True))


def _write_pack(kvstore: ts.KvStore, pack: Pack, plan: Plan, writes: Writes) -> File:
    leaves = {str(number): on_host(value) for number, value in pack.leaves.items()}
    try:
        content = msgpack.pack(leaves)
    except (TypeError, ValueError, OverflowError) as error:
        paths = ", ".join(show_keys(plan.leaves[number].path) for number in list(pack.leaves)[:8])
        raise TreatyError(f"expected values that MessagePack holds, got {error} among {paths}") from error
    writes.add(kvstore.write(pack.name, content), pack.name, len(content), pack.name)
    return File(pack.name, len(content), checksum(content))


def _part(index: int) -> str:
    return f"part-{index}.json"


def _gather(place: Place, data: str, sums: _Sums, team: Team) -> None:
    """Add the checksums that the other processes left."""
    if team.count == 1:
        return
    kvstore = _inside(place, data)
    for index in range(1, team.count):
        found = wait_for(kvstore.read(_part(index)), f"read the checksums of process {index}")
        if found.state != "value":
            raise TreatyError(f"expected the checksums of process {index}, got none in {place.where}")
        for number, chunks in json.loads(found.value).items():
            sums.setdefault(int(number), {}).update((int(chunk), one) for chunk, one in chunks.items())
        wait_for(kvstore.write(_part(index), None), f"remove {_part(index)}")


def _complete(plan: Plan, data: str, sums: _Sums, files: tuple[File, ...]) -> Manifest:
    leaves = list(plan.leaves)
    for number, leaf in enumerate(leaves):
        if leaf.is_chunked:
            total = int(np.prod(leaf.grid))
            found = sums.get(number, {})
            if len(found) != total:
                raise TreatyError(f"expected {total} chunks, got {len(found)} written at {show_keys(leaf.path)}")
            leaves[number] = leaf._replace(checksums=tuple(found[chunk] for chunk in range(total)))
    return Manifest(data, plan.schema, plan.dims, plan.metadata, files, tuple(leaves))
