"""Saving: every process writes its own chunks through TensorStore, process 0 the rest, and then the manifest."""

import json
import secrets
from collections import deque
from itertools import product
from typing import Any, Final

import numpy as np
import tensorstore as ts
from attrs import evolve

from treaty.runtime._errors import show_keys
from treaty.runtime.directory._hash import checksum
from treaty.runtime.directory._layout import Start, array_metadata, chunk_number, metadata_files
from treaty.runtime.directory._manifest import File, Leaf, Manifest
from treaty.runtime.directory._places import Place
from treaty.runtime.directory._plan import Pack, Piece, Plan, on_host
from treaty.runtime.directory._processes import Team
from treaty.runtime.directory._remote import context
from treaty.runtime.formats import msgpack
from treaty.schema import TreatyError
from treaty.schema.dtypes import BY_NAME

IN_FLIGHT: Final = 2**27  # bytes given to TensorStore and not yet written; most are references to the source

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

    def commit() -> str:
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

    if error is not None and team.index != 0:
        raise error
    team.agree("commit", commit)


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
    return ts.KvStore.open(spec, context=context()).result()


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
    return ts.open(spec, context=context()).result()


def _write_own(place: Place, data: str, plan: Plan, team: Team) -> tuple[_Sums, tuple[File, ...]]:
    kvstore = _inside(place, data)
    queue = _Queue()
    sums: _Sums = {}
    try:
        stores: dict[int, ts.TensorStore] = {}
        for piece in plan.pieces:
            leaf = plan.leaves[piece.leaf]
            if piece.leaf not in stores:
                stores[piece.leaf] = _array_store(place, data, piece.leaf, leaf)
            _write_piece(stores[piece.leaf], leaf, piece, queue, sums.setdefault(piece.leaf, {}))
        if team.index != 0:
            queue.add(kvstore.write(_part(team.index), json.dumps(sums).encode()), 0, "its checksums")
            files: tuple[File, ...] = ()
        else:
            files = tuple(_write_pack(kvstore, pack, plan, queue) for pack in plan.packs)
            for name, content in metadata_files(plan.leaves):
                queue.add(kvstore.write(name, content), len(content), name)
    finally:
        queue.wait()
    queue.raise_first()
    return sums, files


def _write_piece(store: ts.TensorStore, leaf: Leaf, piece: Piece, queue: "_Queue", sums: dict[int, str]) -> None:
    """Give the source to TensorStore as it is, and hash it while that writes."""
    assert leaf.dtype is not None
    source = np.asarray(piece.source)
    if BY_NAME[leaf.dtype].tensorstore is None:
        source = source.view(np.uint8)
    stop = tuple(first + size for first, size in zip(piece.start, source.shape, strict=True))
    inner = tuple(slice(first, last) for first, last in zip(piece.start, stop, strict=True))
    future = store[inner].write(source, can_reference_source_data_indefinitely=True)
    queue.add(future, source.nbytes, show_keys(leaf.path))
    for start in product(*(range(0, size, chunk) for size, chunk in zip(source.shape, leaf.chunks, strict=True))):
        part = source[tuple(slice(first, first + chunk) for first, chunk in zip(start, leaf.chunks, strict=True))]
        first: Start = tuple(a + b for a, b in zip(piece.start, start, strict=True))
        sums[chunk_number(leaf, first)] = checksum(np.ascontiguousarray(part).reshape(-1).view(np.uint8))


def _write_pack(kvstore: ts.KvStore, pack: Pack, plan: Plan, queue: "_Queue") -> File:
    try:
        content = msgpack.pack({str(number): on_host(value) for number, value in pack.leaves.items()})
    except (TypeError, ValueError, OverflowError) as error:
        paths = ", ".join(show_keys(plan.leaves[number].path) for number in list(pack.leaves)[:8])
        raise TreatyError(f"expected values that MessagePack holds, got {error} among {paths}") from error
    queue.add(kvstore.write(pack.name, content), len(content), pack.name)
    return File(pack.name, len(content), checksum(content))


def _part(index: int) -> str:
    return f"part-{index}.json"


def _gather(place: Place, data: str, sums: _Sums, team: Team) -> None:
    """Add the checksums that the other processes left."""
    if team.count == 1:
        return
    kvstore = _inside(place, data)
    for index in range(1, team.count):
        found = kvstore.read(_part(index)).result()
        if found.state != "value":
            raise TreatyError(f"expected the checksums of process {index}, got none in {place.where}")
        for number, chunks in json.loads(found.value).items():
            sums.setdefault(int(number), {}).update((int(chunk), one) for chunk, one in chunks.items())
        kvstore.delete_range(ts.KvStore.KeyRange(_part(index), _part(index) + "\0")).result()


def _complete(plan: Plan, data: str, sums: _Sums, files: tuple[File, ...]) -> Manifest:
    leaves = list(plan.leaves)
    for number, leaf in enumerate(leaves):
        if leaf.is_chunked:
            total = int(np.prod(leaf.grid))
            found = sums.get(number, {})
            if len(found) != total:
                raise TreatyError(f"expected {total} chunks, got {len(found)} written at {show_keys(leaf.path)}")
            leaves[number] = evolve(leaf, checksums=tuple(found[chunk] for chunk in range(total)))
    return Manifest(data, plan.schema, plan.dims, plan.metadata, files, tuple(leaves))


class _Queue:
    """Writes under way, few enough to bound memory."""

    def __init__(self) -> None:
        self._pending: deque[tuple[Any, int, str]] = deque()
        self._bytes = 0
        self._error: Exception | None = None

    def add(self, future: Any, size: int, what: str) -> None:
        self._pending.append((future, size, what))
        self._bytes += size
        while self._bytes > IN_FLIGHT and len(self._pending) > 1:
            self._wait_for_first()
        self.raise_first()

    def wait(self) -> None:
        while self._pending:
            self._wait_for_first()

    def raise_first(self) -> None:
        if self._error is not None:
            raise self._error

    def _wait_for_first(self) -> None:
        future, size, what = self._pending.popleft()
        self._bytes -= size
        try:
            future.result()
        except Exception as error:  # TensorStore raises many kinds
            if self._error is None:
                self._error = TreatyError(f"cannot write {what}: {error}")
                self._error.__cause__ = error
