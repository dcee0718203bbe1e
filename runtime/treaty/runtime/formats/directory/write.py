"""Saving: every process writes its own chunks, process 0 the rest, and then the manifest."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import tensorstore as ts
from attrs import evolve

from treaty.runtime._errors import show_keys, storing
from treaty.runtime._lazy import LazyArray, as_bytes, by_bands
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
from treaty.runtime.formats.directory.layout import Start, chunk_name, chunk_number, metadata_files, sizes_of
from treaty.runtime.formats.directory.manifest import File, Leaf, Manifest
from treaty.runtime.formats.directory.places import Place
from treaty.runtime.formats.directory.plan import Pack, Piece, SavePlan, chunks_of, digests_of, on_host
from treaty.runtime.formats.directory.remembered import ChunkKey
from treaty.runtime.formats.directory.remote import context, wait_for
from treaty.runtime.formats.directory.write_queue import UNDER_WAY, FileQueue
from treaty.schema import TreatyError

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


def _write_own(place: Place, data: str, plan: SavePlan, team: Team) -> tuple[Sums, list[_Packed], dict[str, int]]:
    """What process 0 writes: digests of its chunks, its packs, and the sizes of what only other readers need."""
    sizes: dict[str, int] = {}
    with _NewData(place, data, plan) as output:
        sums = _write_pieces(output, plan, team)
        packed = [_write_pack(output, pack, plan) for pack in plan.packs]
        for name, content in metadata_files(plan.leaves):
            number, in_array, _ = name.partition("/")
            stored = output.earlier.metadata(plan.leaves[int(number)], content) if in_array else None
            output.put(name, content, stored)
            sizes[name] = len(content)
    return sums, packed, sizes


def _write_part(place: Place, data: str, plan: SavePlan, values: Mapping[str, Any], team: Team) -> None:
    """What a process writes that follows, and for process 0 the checksums of that and of what must be alike."""
    with _NewData(place, data, plan) as output:
        sums = _write_pieces(output, plan, team)
        alike: dict[int, dict[int, str]] = {number: dict(found) for number, found in plan.sums.items()}
        for piece in plan.spare:
            alike.setdefault(piece.leaf, {}).update(digests_of(piece, plan.leaves[piece.leaf]))
            team.check()
        output.wait()  # the checksums are made where the chunks are written
        output.put(_part(team.index), json.dumps({"sums": sums, "alike": alike, **values}).encode(), None)


class _NewData(FileQueue):
    """The files of new data, each written by a thread of its own, or linked to one of the base with the same bytes."""

    def __init__(self, place: Place, data: str, plan: SavePlan) -> None:
        is_lazy = any(isinstance(one.source, LazyArray) for one in plan.pieces)  # then what is under way is in memory
        super().__init__(place, data, UNDER_WAY // 4 if is_lazy else UNDER_WAY, plan.advance)
        self.earlier = Earlier(plan.base, place, data)

    def put(self, name: str, content: bytes, stored: EarlierFile | None) -> None:
        """A file of which all bytes are known; `stored` has the same in the base."""
        if stored is None or not self.linked_at_once(name, stored, len(content)):
            self.add_file(partial(self.deliver, name, content, name, stored), name, len(content))

    def linked_at_once(self, name: str, stored: EarlierFile, size: int) -> bool:
        """Without a thread, where nothing is to be synced: of many that only link, each waits most of the time for the others."""
        if not self.earlier.is_synced or not self.linked(name, stored):
            return False
        self.add_done(name, size)
        return True

    def linked(self, name: str, stored: EarlierFile) -> bool:
        how = self.earlier.link(stored, name)
        if how == "not synced":
            with storing(f"write {name} in", self._place.where):
                self._place.sync(f"{self._data}/{name}")
        return how is not None

    def deliver(self, name: str, content: Any, what: str, stored: EarlierFile | None) -> None:
        if stored is None or not self.linked(name, stored):
            self._place.put(f"{self._data}/{name}", content, what)


def _write_pieces(output: _NewData, plan: SavePlan, team: Team) -> Sums:
    """Begin to write what this process has to; the digests are there when the output is."""
    sums: Sums = {}
    arrays: dict[int, _ArrayOutput] = {}
    for piece in plan.pieces:
        leaf = plan.leaves[piece.leaf]
        if piece.leaf not in arrays:
            arrays[piece.leaf] = _ArrayOutput(output, piece.leaf, leaf, sums.setdefault(piece.leaf, {}))
        for part in _parts(piece, leaf):
            _write_piece(arrays[piece.leaf], part)
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
    """Where one array is written to, what the base has of it, and the digests of its chunks, by number."""

    def __init__(self, output: _NewData, number: int, leaf: Leaf, sums: dict[int, str]) -> None:
        self._output = output
        self._number = number
        self._stored = output.earlier.chunks(leaf)
        self._what = show_keys(leaf.path)
        self.leaf = leaf
        self.sums = sums

    def add(self, start: Start, part: HostArray, known: dict[ChunkKey, str]) -> None:
        """Link a chunk that the base has, or let a thread write it. `known` holds the digests that were found before of an
        array that cannot have changed since."""
        index = [first // chunk for first, chunk in zip(start, self.leaf.chunks, strict=True)]
        name, number = f"{self._number}/{chunk_name(index)}", chunk_number(self.leaf, start)
        stored, same = self._in_base(number)
        key = start, self.leaf.chunks, self.leaf.codec
        if stored is not None and known.get(key) == same and self._output.linked_at_once(name, stored, part.nbytes):
            self.sums[number] = known[key]
        else:
            self._output.add_file(partial(self._write, name, number, key, part, known), name, part.nbytes)

    def _write(self, name: str, number: int, key: ChunkKey, part: HostArray, known: dict[ChunkKey, str]) -> None:
        leaf, (stored, same) = self.leaf, self._in_base(number)
        if stored is not None and known.get(key) == same and self._output.linked(name, stored):
            self.sums[number] = known[key]
            return
        content = as_bytes(part) if leaf.codec is None else compress(leaf, part)
        found = self.sums[number] = known[key] = digest(content) if leaf.codec is None else stored_digest(content)
        self._output.deliver(name, content, self._what, stored if found == same else None)

    def _in_base(self, number: int) -> tuple[EarlierFile | None, str | None]:
        """The same chunk in the base, and what its bytes are known by."""
        if self._stored is None:
            return None, None
        stored = self._stored[number]
        return stored, stored.digest if self.leaf.codec is None else f"{stored.digest}{stored.size:x}"


def _write_piece(array: _ArrayOutput, piece: Piece) -> None:
    known = {} if piece.record is None else piece.record.chunks
    for start, part in chunks_of(piece, array.leaf):
        array.add(start, part, known)


def _write_pack(output: _NewData, pack: Pack, plan: SavePlan) -> _Packed:
    leaves = {str(number): on_host(value) for number, value in pack.leaves.items()}
    try:
        content = msgpack.pack(leaves)
    except (TypeError, ValueError, OverflowError) as error:
        paths = ", ".join(show_keys(plan.leaves[number].path) for number in list(pack.leaves)[:8])
        raise TreatyError(f"expected values that MessagePack holds, got {error} among {paths}") from error
    found, stored = digest(content), output.earlier.file(pack.name)
    is_same = stored is not None and (stored.size, stored.digest) == (len(content), found)
    output.put(pack.name, content, stored if is_same else None)
    return File(pack.name, len(content), lower(found)), upper(found)


def _part(index: int) -> str:
    return f"part-{index}.json"


def _gather(place: Place, data: str, plan: SavePlan, sums: Sums, team: Team) -> None:
    """Add the checksums that the other processes left, and see that they have the same values."""
    if team.count == 1:
        return
    spec = {**place.kvstore, "path": f"{place.kvstore['path']}{data}/"}
    kvstore: ts.KvStore = wait_for(ts.KvStore.open(spec, context=context()), f"open {place.where}")
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
