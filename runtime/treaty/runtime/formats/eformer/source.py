"""eformer's layout, open, and state dicts written in it one leaf at a time, without devices or a manager."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, Final

import tensorstore as ts

from treaty.runtime._errors import CorruptCheckpointError, LeafError, show_keys
from treaty.runtime._lazy import LazyArray, Part, by_bands, chunk_of
from treaty.runtime._process.uninterrupted import go_on, uninterrupted
from treaty.runtime._restore.source import Source
from treaty.runtime._storage.claimed_sizes import missing_chunk
from treaty.runtime._storage.directories import sizes_below
from treaty.runtime._storage.overtaken import Known
from treaty.runtime._trees import check_depth, flatten
from treaty.runtime.formats.eformer.index import Entry, Index, check_places, nested
from treaty.runtime.formats.eformer.leaf_kinds import from_array, to_array
from treaty.runtime.formats.eformer.store import Store, naming, wrote
from treaty.runtime.formats.shared.format import Writing
from treaty.runtime.formats.shared.stored_arrays import stored_array
from treaty.schema import Schema

_CHUNK: Final = 2**24  # bytes of an array that are stored as one
_HELD: Final = 2**23  # bytes that are read before they are written


class EformerSource(Source):
    """All trees of a checkpoint in one: those with a prefix under it. The layout stores neither None nor empty nodes."""

    is_exact = False
    forgets_none = True

    def __init__(self, path: str, known: Known | None = None) -> None:
        super().__init__(path)
        self._store = Store.at(path)
        self._index = self._store.require_index()

    def whole(self, schema: Schema | None) -> Any:
        index = self._index
        tree = {} if index.arrays is None else _section(self._store, index.arrays)
        for prefix, entries in index.prefixes.items():
            if not isinstance(tree, dict) or prefix in tree:
                raise CorruptCheckpointError(f"expected one tree under {prefix!r}, got two in {self.where}")
            tree[prefix] = _section(self._store, entries)
        return tree

    def require_files(self) -> None:
        """That every chunk is there; no array is read."""
        stored = [*(self._index.arrays or ()), *chain.from_iterable(self._index.prefixes.values())]
        files = sizes_below(Path(self.where))
        for entry, array in zip(stored, self._store.open(stored), strict=True):
            if lost := missing_chunk(array, entry.path, files):
                raise CorruptCheckpointError(f"expected an intact array, got nothing in {lost} at {entry}")


def known_eformer(path: str, held: ExitStack) -> Known:
    return Store.at(path).known(held)


@uninterrupted
def write_tree(path: str, tree: Mapping[str, Any], writing: Writing) -> None:
    """Store a state dict as the one tree without a prefix."""
    leaves = list(flatten(tree))
    for keys, _ in leaves:
        check_depth(keys)
    lost = [to for to, leaf in leaves if leaf is None or type(leaf) is dict]
    if lost:
        at = ", ".join(map(show_keys, lost[:8]))
        raise LeafError(f"expected leaves that eformer's layout keeps, got None or an empty node at {at}")
    stored = [to_array(None, keys, leaf) for keys, leaf in leaves]
    check_places(None, [entry for entry, _ in stored], Index())
    store = Store.at(path)
    with wrote(store.where):
        store.make()
    batch: list[tuple[Entry, Any]] = []
    for entry, array in stored:
        go_on()
        if isinstance(array, LazyArray) and array.nbytes > _CHUNK:
            _write_in_chunks(store, entry, array)
            continue
        batch.append((entry, array))
        if sum(one.nbytes for _, one in batch) >= _HELD:
            _write(store, batch)
            batch = []
    _write(store, batch)
    entries = tuple(entry for entry, _ in stored)
    with wrote(store.where):
        store.sync(entries)
    store.change_index(lambda index: index.with_section(None, entries))


def _write(store: Store, batch: list[tuple[Entry, Any]]) -> None:
    arrays = [array.read() if isinstance(array, LazyArray) else array for _, array in batch]
    if batch:
        with wrote(f"{batch[0][0]} and {len(batch) - 1} more to {store.where}"):
            store.write([entry for entry, _ in batch], arrays)


def _write_in_chunks(store: Store, entry: Entry, array: LazyArray) -> None:
    """Chunk by chunk; eformer stores arrays of one device as one chunk, and reads either."""
    chunks = chunk_of(array.shape, array.dtype.itemsize, _CHUNK)
    metadata = {"shape": entry.shape, "chunks": chunks, "compressor": {"id": "zstd"}}
    with wrote(f"{entry} to {store.where}"):
        target = ts.open({**store.spec(entry), "dtype": entry.dtype, "metadata": metadata}, create=True).result()
        for start, part in by_bands(array, chunks):
            go_on()
            target[Part(start, part).box].write(part).result()


def _section(store: Store, entries: tuple[Entry, ...]) -> Any:
    opened = store.open(entries)
    return nested(entries, [_leaf(entry, one) for entry, one in zip(entries, opened, strict=True)])


def _leaf(entry: Entry, store: Any) -> Any:
    def wait(read: Callable[[], Any]) -> Any:
        with naming(entry):
            return read()

    array = stored_array(store, wait)
    if entry.leaf in ("jax", "numpy"):
        return array
    if entry.leaf.startswith("key:"):
        return {"impl": entry.leaf.removeprefix("key:"), "data": array}
    return from_array(entry, array.read())
