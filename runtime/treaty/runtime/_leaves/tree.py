"""State dicts in eformer's layout, one leaf at a time: for conversion, which needs neither devices nor a manager."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import tensorstore as ts

from treaty.runtime._errors import CorruptCheckpointError, LeafError, MissingCheckpointError, show_keys
from treaty.runtime._lazy import HostArray, LazyArray, Start, by_bands, chunk_of, read_by_bands
from treaty.runtime._leaves.index import Entry, Index, check_places
from treaty.runtime._leaves.kinds import from_array, to_array
from treaty.runtime._leaves.load import nested
from treaty.runtime._leaves.paths import INDEX
from treaty.runtime._leaves.read import Reading
from treaty.runtime._leaves.store import Store, naming, writing
from treaty.runtime._state.trees import check_depth, flatten
from treaty.runtime._uninterrupted import go_on, uninterrupted

_CHUNK: Final = 2**24  # bytes of an array that are stored as one
_HELD: Final = 2**23  # bytes that are read before they are written


def read_tree(path: Path) -> Any:
    """All trees of a checkpoint in one: those with a prefix under it. Arrays are lazy ones."""
    store = Store.at(path)
    index = store.read_index()
    if index is None:
        raise MissingCheckpointError(f"expected {INDEX}, got none in {path}: not a checkpoint, or one never finished")
    tree = {} if index.arrays is None else _section(store, index.arrays)
    for prefix, entries in index.prefixes.items():
        if not isinstance(tree, dict) or prefix in tree:
            raise CorruptCheckpointError(f"expected one tree under {prefix!r}, got two in {path}")
        tree[prefix] = _section(store, entries)
    return tree


@uninterrupted
def write_tree(path: Path, tree: Mapping[str, Any]) -> None:
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
    with writing(store.where):
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
    with writing(store.where):
        store.sync(entries)
    store.change_index(lambda index: index.with_section(None, entries))


def _write(store: Store, batch: list[tuple[Entry, Any]]) -> None:
    arrays = [array.read() if isinstance(array, LazyArray) else array for _, array in batch]
    if batch:
        with writing(f"{batch[0][0]} and {len(batch) - 1} more to {store.where}"):
            store.write([entry for entry, _ in batch], arrays)


def _write_in_chunks(store: Store, entry: Entry, array: LazyArray) -> None:
    """Chunk by chunk; eformer stores arrays of one device as one chunk, and reads either."""
    chunks = chunk_of(array.shape, array.dtype.itemsize, _CHUNK)
    metadata = {"shape": entry.shape, "chunks": chunks, "compressor": {"id": "zstd"}}
    with writing(f"{entry} to {store.where}"):
        target = ts.open({**store.spec(entry), "dtype": entry.dtype, "metadata": metadata}, create=True).result()
        for start, part in by_bands(array, chunks):
            go_on()
            box = tuple(slice(first, first + size) for first, size in zip(start, part.shape, strict=True))
            target[box].write(part).result()


def _section(store: Store, entries: tuple[Entry, ...]) -> Any:
    opened = store.open(entries)
    return nested(entries, [_leaf(entry, one) for entry, one in zip(entries, opened, strict=True)])


def _leaf(entry: Entry, store: Any) -> Any:
    def read() -> Any:
        with naming(entry):
            return Reading(store).result()

    def begin(start: Start, memory: HostArray) -> Callable[[], object]:
        box = tuple(slice(first, first + size) for first, size in zip(start, memory.shape, strict=True))
        reading = ts.array(memory).write(store[box][ts.d[:].translate_to[0]] if box else store)

        def wait() -> None:
            with naming(entry):
                reading.result()

        return wait

    def parts() -> Iterator[HostArray]:
        chunks = store.chunk_layout.read_chunk.shape
        return read_by_bands(tuple(store.shape), store.dtype.numpy_dtype, chunks, begin)

    if entry.leaf in ("jax", "numpy"):
        return LazyArray(tuple(store.shape), store.dtype.numpy_dtype, read, parts)
    if entry.leaf.startswith("key:"):
        return {"impl": entry.leaf.removeprefix("key:"), "data": LazyArray(entry.shape, store.dtype.numpy_dtype, read)}
    return from_array(entry, read())
