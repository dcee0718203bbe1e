"""Restore a tree from eformer's layout: everything that can be known to be wrong is found before data is read."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from attrs import frozen
from jax.sharding import Mesh

from treaty.runtime._eformer.leaf_shardings import LeafPlace, Rules, places
from treaty.runtime._eformer.manager import ArrayLoader
from treaty.runtime._eformer.shard_reader import ShardReader
from treaty.runtime._process.uninterrupted import uninterrupted
from treaty.runtime._process.workers import in_threads
from treaty.runtime._storage.overtaken import begin_again
from treaty.runtime.formats.eformer.index import Entry, nested
from treaty.runtime.formats.eformer.leaf_kinds import Array, from_array
from treaty.runtime.formats.eformer.store import Directory, Store, naming
from treaty.runtime.formats.shared.stored_arrays import stored_array


def tree_deserialize_leaves(
    checkpoint_dir: Directory,
    mesh: Mesh | None,
    manager: ArrayLoader | None = None,
    *,
    prefix: str | None = None,
    partition_rules: Rules | None = None,
    shardings: Any = None,
    callback: Callable[[Any, str], Any] | None = None,
    chunk_size: int | None = None,
) -> Any:
    """The tree stored under `prefix`, as nested dicts with string keys.

    `partition_rules` are searched in the leaf's name, written with slashes, and the first that matches decides.
    `shardings` is a tree, or a dict by dotted names, of shardings, PartitionSpecs, or functions applied to the array.
    `callback(array, name)` replaces each array; it is called again where another save took the checkpoint's place.
    `chunk_size` is the number of arrays that are read at a time.
    """
    manager = manager or ShardReader()
    manager.wait_until_finished()  # the index of a save under way is not there yet
    store = Store.at(checkpoint_dir)

    def load() -> Any:
        entries = _section(store, prefix)
        found = list(zip(entries, places(entries, mesh, partition_rules, shardings), strict=True))
        size = chunk_size if chunk_size is not None and chunk_size > 0 else max(1, len(found))
        leaves: list[Any] = []
        for start in range(0, len(found), size):
            leaves += _Batches(store, manager).read(found[start : start + size], callback)
        return nested(entries, leaves)

    return begin_again(store.where, store.known, load)


def _section(store: Store, prefix: str | None) -> tuple[Entry, ...]:
    """The entries of a tree, each of which fits its array."""
    entries = store.require_index().section(prefix)
    nested(entries, entries)
    store.open(entries)
    return entries


@frozen
class _Batches:
    store: Store
    manager: ArrayLoader

    def read(self, batch: Sequence[tuple[Entry, LeafPlace]], callback: Callable[[Any, str], Any] | None) -> list[Any]:
        on_host = iter(self._on_host([entry for entry, place in batch if place.sharding is None]))
        on_device = iter(
            self._on_device([(entry, place.sharding) for entry, place in batch if place.sharding is not None])
        )
        leaves = []
        for entry, place in batch:
            leaf = from_array(entry, next(on_host if place.sharding is None else on_device))
            if place.then is not None:
                leaf = place.then(leaf)
            if callback is not None and entry.leaf in ("jax", "numpy"):
                leaf = callback(leaf, entry.name)
            leaves.append(leaf)
        return leaves

    @uninterrupted
    def _on_host(self, entries: Sequence[Entry]) -> Sequence[Array]:
        def read(pair: tuple[Entry, Any]) -> Array:
            with naming(pair[0]):
                return stored_array(pair[1], lambda reading: reading()).read()

        return in_threads("treaty-read", read, zip(entries, self.store.open(entries), strict=True))

    def _on_device(self, leaves: Sequence[tuple[Entry, jax.sharding.Sharding]]) -> Sequence[Array]:
        if not leaves:
            return []
        specs = [self.store.spec(entry) for entry, _ in leaves]
        try:
            arrays = self.manager.deserialize([sharding for _, sharding in leaves], specs)
        except (ValueError, MemoryError):
            # A manager does not say which of many it was: read them one by one to name it.
            for (entry, sharding), spec in zip(leaves, specs, strict=True):
                with naming(entry):
                    self.manager.deserialize([sharding], [spec])
            raise
        self.manager.wait_until_finished()
        return arrays
