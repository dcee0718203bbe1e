"""Saving: every process writes its own chunks through TensorStore, process 0 the rest, and then the manifest."""

import json
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
import tensorstore as ts
from attrs import evolve

from treaty.runtime._errors import show_keys
from treaty.runtime._lazy import LazyArray, by_bands
from treaty.runtime._process.team import Team
from treaty.runtime._process.uninterrupted import uninterrupted
from treaty.runtime._storage.memory import HostArray
from treaty.runtime.formats import msgpack
from treaty.runtime.formats.directory.agreement import (
    Facts,
    Sums,
    add_part,
    difference,
    digest_of,
    facts_of,
    order_of,
    settle,
    values_of,
)
from treaty.runtime.formats.directory.base import Earlier, EarlierFile
from treaty.runtime.formats.directory.checksum import digest, lower, upper
from treaty.runtime.formats.directory.compression import compress, stored_digest, stored_size
from treaty.runtime.formats.directory.layout import (
    Start,
    array_metadata,
    chunk_name,
    chunk_number,
    metadata_files,
    sizes_of,
)
from treaty.runtime.formats.directory.manifest import File, Leaf, Manifest
from treaty.runtime.formats.directory.places import Place
from treaty.runtime.formats.directory.plan import Pack, Piece, SavePlan, array_digest, chunks_of, digests_of, on_host
from treaty.runtime.formats.directory.remote import context, wait_for
from treaty.runtime.formats.directory.write_queue import IN_FLIGHT, FileQueue
from treaty.schema import TreatyError
from treaty.schema.dtypes import BY_NAME

_Packed: TypeAlias = tuple[File, str]  # with the upper half of its digest


@uninterrupted
def write(place: Place, plan: SavePlan, team: Team) -> None:
    """Write a plan and commit it; whatever goes wrong, what was committed before stays."""
    team.where = place.where
    with team:
        if team.index == 0:
            _lead(place, plan, team)
        else:
            _follow(place, plan, team)


def _lead(place: Place, plan: SavePlan, team: Team) -> None:
    opening, facts = _opening(place, plan) if team.count > 1 else ({}, [])
    data = _begin(place)
    try:
        team.begin({**opening, "data": data})
        sums, packed, sizes = _write_own(place, data, plan, team)
        for process, answer in team.collect().items():
            if "facts" in answer and (found := difference(facts, answer["facts"], process)):
                raise team.failure(f"{found}; every process must save the same state")
        _gather(place, data, plan, sums, team)
        manifest = _complete(plan, data, sums, packed)
        place.commit(data, manifest.to_bytes(), {**sizes, **dict(sizes_of(manifest))})
    except BaseException as error:
        team.fail(error)  # before data goes that others may be writing: they shall know why
        place.abandon(data)
        raise
    team.end()


def _follow(place: Place, plan: SavePlan, team: Team) -> None:
    mine, facts = _opening(place, plan)
    opening = team.opening(mine["mine"])
    if not {place.where, _resolved(place)} & {*opening["places"]}:
        raise TreatyError(
            f"expected all processes to save {place.where}, got process 0 that saves {opening['places'][0]}; "
            "every process must make the same saves in the same order"
        )
    if opening["facts"] != mine["facts"]:  # process 0 finds out where, and tells all
        team.done({"facts": facts})
        team.wait()
    settled = settle(plan, opening["order"], {int(number): owner for number, owner in opening["owners"].items()})
    values = {} if opening["values"] == mine["values"] else {"values": values_of(plan)}
    try:
        _write_part(place, opening["data"], settled, values, team)
    except (TreatyError, OSError):
        team.check(now=True)  # process 0 may have given the save up, and removed what was being written
        raise
    team.done({})
    team.wait()


def _opening(place: Place, plan: SavePlan) -> tuple[dict[str, Any], Facts]:
    """What process 0 tells the others, as this process would say it, and what the digest in it stands for."""
    facts = facts_of(plan)
    structure, values = digest_of(facts), digest_of(values_of(plan))
    opening = {
        "mine": [place.where, structure, values],  # what tells this save from others
        "places": [place.where, _resolved(place)],
        "facts": structure,
        "values": values,
        "order": order_of(plan),
        "owners": plan.owners,
    }
    return opening, facts


def _resolved(place: Place) -> str:
    return json.dumps(place.kvstore, sort_keys=True)


def _begin(place: Place) -> str:
    data = place.begin()
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


def _write_own(place: Place, data: str, plan: SavePlan, team: Team) -> tuple[Sums, list[_Packed], dict[str, int]]:
    """What process 0 writes: digests of its chunks, its packs, and the sizes of what only other readers need."""
    sizes: dict[str, int] = {}
    earlier = Earlier(plan.base, place, data)
    with _writes(place, data, plan) as writes:
        sums = _write_pieces(place, data, plan, earlier, writes, team)
        kvstore = _inside(place, data)
        packed = [_write_pack(kvstore, pack, plan, earlier, writes) for pack in plan.packs]
        for name, content in metadata_files(plan.leaves):
            number, in_array, _ = name.partition("/")
            stored = earlier.metadata(plan.leaves[int(number)], content) if in_array else None
            _write_file(kvstore, name, content, stored, earlier, writes)
            sizes[name] = len(content)
    return sums, packed, sizes


def _write_part(place: Place, data: str, plan: SavePlan, values: Mapping[str, Any], team: Team) -> None:
    """What a process writes that follows, and for process 0 the checksums of that and of what must be alike."""
    with _writes(place, data, plan) as writes:
        sums = _write_pieces(place, data, plan, Earlier(plan.base, place, data), writes, team)
        if plan.compress:
            writes.wait()  # only then it is known how they are stored
        alike: dict[int, dict[int, str]] = {number: dict(found) for number, found in plan.sums.items()}
        for piece in plan.spare:
            alike.setdefault(piece.leaf, {}).update(digests_of(piece, plan.leaves[piece.leaf]))
            team.check()
        content = json.dumps({"sums": sums, "alike": alike, **values}).encode()
        name = _part(team.index)
        writes.write(_inside(place, data).write(name, content), name, len(content), "its checksums")


def _writes(place: Place, data: str, plan: SavePlan) -> FileQueue:
    is_lazy = any(isinstance(one.source, LazyArray) for one in plan.pieces)  # then what is in flight is in memory
    return FileQueue(place, data, IN_FLIGHT // 4 if is_lazy else IN_FLIGHT, plan.advance)


def _write_pieces(place: Place, data: str, plan: SavePlan, earlier: Earlier, writes: FileQueue, team: Team) -> Sums:
    sums: Sums = {}
    arrays: dict[int, _ArrayOutput] = {}
    for piece in plan.pieces:
        leaf = plan.leaves[piece.leaf]
        if piece.leaf not in arrays:
            arrays[piece.leaf] = _ArrayOutput(place, data, piece.leaf, leaf, earlier)
        write = _write_piece if leaf.codec is None else _write_compressed
        for part in _parts(piece, leaf):
            write(arrays[piece.leaf], part, writes, sums.setdefault(piece.leaf, {}))
            team.check()
    return sums


def _parts(piece: Piece, leaf: Leaf) -> Iterator[Piece]:
    """A lazy array passes chunk by chunk."""
    if not isinstance(piece.source, LazyArray):
        yield piece
        return
    for start, part in by_bands(piece.source, leaf.chunks):
        yield evolve(piece, start=start, source=part)


class _ArrayOutput:
    """Where one array is written to, and what the base has of it. Opened when something is written."""

    def __init__(self, place: Place, data: str, number: int, leaf: Leaf, earlier: Earlier) -> None:
        self.number = number
        self.leaf = leaf
        self.earlier = earlier
        self.stored = earlier.chunks(leaf)
        self._open = cache(partial(_array_store, place, data, number, leaf))
        self.inside = cache(partial(_inside, place, data))

    def begin(self, start: Start, part: HostArray) -> Any:
        """Give the source to TensorStore as it is."""
        assert self.leaf.dtype is not None
        box = tuple(slice(first, first + size) for first, size in zip(start, self.leaf.chunks, strict=True))
        source = part if BY_NAME[self.leaf.dtype].tensorstore is not None else part.view(np.uint8)
        return self._open()[box].write(source, can_reference_source_data_indefinitely=True)


def _write_piece(array: _ArrayOutput, piece: Piece, writes: FileQueue, sums: dict[int, str]) -> None:
    """Write chunk by chunk, and hash each while that goes on. What the base may have is hashed before it is written."""
    leaf, what = array.leaf, show_keys(array.leaf.path)
    known = {} if piece.record is None else piece.record.chunks
    for start, part in chunks_of(piece, leaf):
        index = [first // chunk for first, chunk in zip(start, leaf.chunks, strict=True)]
        name, number = f"{piece.leaf}/{chunk_name(index)}", chunk_number(leaf, start)
        if array.stored is None:
            writes.write(array.begin(start, part), name, part.nbytes, what)
            found = array_digest(part)
        else:
            stored = array.stored[number]
            found = known.get((start, leaf.chunks, None)) or array_digest(part)
            if found == stored.digest:
                link = partial(array.earlier.link, stored, name)
                writes.link(link, partial(array.begin, start, part), name, part.nbytes, what)
            else:
                writes.write(array.begin(start, part), name, part.nbytes, what)
        sums[number] = known[start, leaf.chunks, None] = found


def _write_compressed(array: _ArrayOutput, piece: Piece, writes: FileQueue, sums: dict[int, str]) -> None:
    """As `_write_piece`; what is hashed, and compared with the base, are the bytes that are stored."""
    leaf, what = array.leaf, show_keys(array.leaf.path)
    for start, part in chunks_of(piece, leaf):
        index = [first // chunk for first, chunk in zip(start, leaf.chunks, strict=True)]
        name, number = f"{piece.leaf}/{chunk_name(index)}", chunk_number(leaf, start)
        work = partial(_compress_chunk, array, piece, start, part, name, number, sums)
        writes.do(work, name, part.nbytes, what)


def _compress_chunk(
    array: _ArrayOutput, piece: Piece, start: Start, part: HostArray, name: str, number: int, sums: dict[int, str]
) -> None:
    known = {} if piece.record is None else piece.record.chunks
    key = (start, array.leaf.chunks, array.leaf.codec)
    stored = None if array.stored is None else array.stored[number]
    same = None if stored is None else f"{stored.digest}{stored.size:x}"
    if stored is not None and known.get(key) == same and array.earlier.link(stored, name):
        sums[number] = known[key]
        return
    content = compress(array.leaf, part)
    found = sums[number] = known[key] = stored_digest(content)
    if stored is None or found != same or not array.earlier.link(stored, name):
        wait_for(array.inside().write(name, content), f"write {show_keys(array.leaf.path)}")


def _write_file(
    kvstore: ts.KvStore, name: str, content: bytes, stored: EarlierFile | None, earlier: Earlier, writes: FileQueue
) -> None:
    """A file of which all bytes are known; `stored` has the same in the base."""
    begin = partial(kvstore.write, name, content)
    if stored is None:
        writes.write(begin(), name, len(content), name)
    else:
        writes.link(partial(earlier.link, stored, name), begin, name, len(content), name)


def _write_pack(kvstore: ts.KvStore, pack: Pack, plan: SavePlan, earlier: Earlier, writes: FileQueue) -> _Packed:
    leaves = {str(number): on_host(value) for number, value in pack.leaves.items()}
    try:
        content = msgpack.pack(leaves)
    except (TypeError, ValueError, OverflowError) as error:
        paths = ", ".join(show_keys(plan.leaves[number].path) for number in list(pack.leaves)[:8])
        raise TreatyError(f"expected values that MessagePack holds, got {error} among {paths}") from error
    found, stored = digest(content), earlier.file(pack.name)
    is_same = stored is not None and (stored.size, stored.digest) == (len(content), found)
    _write_file(kvstore, pack.name, content, stored if is_same else None, earlier, writes)
    return File(pack.name, len(content), lower(found)), upper(found)


def _part(index: int) -> str:
    return f"part-{index}.json"


def _gather(place: Place, data: str, plan: SavePlan, sums: Sums, team: Team) -> None:
    """Add the checksums that the other processes left, and see that they have the same values."""
    if team.count == 1:
        return
    kvstore = _inside(place, data)
    problems: list[str] = []
    for index in range(1, team.count):
        found = wait_for(kvstore.read(_part(index)), f"read the checksums of process {index}")
        if found.state != "value":
            raise team.failure(
                f"expected the checksums of process {index}, got none in {place.where}; "
                "save to a place that all processes see"
            )
        problems += add_part(plan, sums, index, json.loads(found.value))
        wait_for(kvstore.write(_part(index), None), f"remove {_part(index)}")
    if problems:
        raise team.failure(f"{problems[0]}; every process must save the same state")


def _complete(plan: SavePlan, data: str, sums: Sums, packed: list[_Packed]) -> Manifest:
    leaves = list(plan.leaves)
    above = {file.name: [found] for file, found in packed}
    for number, leaf in enumerate(leaves):
        if leaf.is_chunked:
            total = int(np.prod(leaf.grid))
            found = sums.get(number, {})
            if len(found) != total:
                raise TreatyError(f"expected {total} chunks, got {len(found)} written at {show_keys(leaf.path)}")
            sizes = tuple(stored_size(found[chunk]) for chunk in range(total)) if leaf.codec is not None else ()
            leaves[number] = leaf._replace(checksums=tuple(lower(found[chunk]) for chunk in range(total)), sizes=sizes)
            above[str(number)] = [upper(found[chunk]) for chunk in range(total)]
    files = tuple(file for file, _ in packed)
    return Manifest(data, plan.schema, plan.dims, plan.metadata, files, tuple(leaves), plan.revisions, above, plan.step)
