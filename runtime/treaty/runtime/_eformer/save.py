"""Save a pytree in eformer's layout: arrays first, the index when all of them are on disk."""

from collections.abc import Callable
from typing import Any, Final

import jax
import numpy as np
from jax.experimental import multihost_utils

from treaty.runtime._eformer.manager import ArraySaver, default_manager
from treaty.runtime._errors import StorageError
from treaty.runtime._process.uninterrupted import uninterrupted
from treaty.runtime.formats.eformer.index import Entry, Index, check_places
from treaty.runtime.formats.eformer.leaf_kinds import on_host, to_array
from treaty.runtime.formats.eformer.leaf_paths import keys_of
from treaty.runtime.formats.eformer.store import Directory, Store, wrote

_SAID: Final = 1024  # bytes of what process 0 says of its failure


@uninterrupted
def tree_serialize_leaves(
    checkpoint_dir: Directory,
    pytree: Any,
    manager: ArraySaver | None = None,
    *,
    prefix: str | None = None,
    commit_callback: Callable[[], None] | None = None,
    write_index: bool = True,
) -> None:
    """Store every leaf of `pytree`, and list them in the index under `prefix`.

    With a manager of your own it returns while JAX still writes, and the save is done when
    `manager.wait_until_finished()` returns. None leaves and empty nodes are not stored.
    """
    leaves = jax.tree_util.tree_flatten_with_path(pytree)[0]
    stored = [to_array(prefix, keys_of(path), leaf) for path, leaf in leaves]
    entries = tuple(entry for entry, _ in stored)
    store, first = Store.at(checkpoint_dir), jax.process_index() == 0
    waiting = manager is None
    manager = manager or default_manager()
    manager.wait_until_finished()  # an earlier save may be about to write the index
    check_places(prefix, entries, store.read_index() or Index())

    def commit() -> None:
        if first and write_index:
            with wrote(store.where):
                store.sync(entries)
            store.change_index(lambda index: index.with_section(prefix, entries))
        if commit_callback is not None:
            commit_callback()

    def begin() -> None:
        host = [(entry, np.asarray(array)) for entry, array in stored if on_host(entry)]
        with wrote(store.where):
            store.make()
            _make_room(store, prefix, entries, write_index)
            store.write([entry for entry, _ in host], [array for _, array in host])

    _by_the_first(begin)
    device = [(entry, array) for entry, array in stored if isinstance(array, jax.Array)]
    specs = [store.spec(entry) for entry, _ in device]
    with wrote(store.where):
        manager.serialize([array for _, array in device], specs, on_commit_callback=commit)
        if waiting:
            manager.wait_until_finished()


def _by_the_first(begin: Callable[[], None]) -> None:
    """Process 0 does it, the others wait, and all of them know how it went: who waits for an array of a failed save waits for ever."""
    first = jax.process_index() == 0
    failed: BaseException | None = None
    try:
        if first:
            begin()
    except BaseException as error:
        failed = error
        raise
    finally:
        if jax.process_count() > 1:
            said = _told_by_the_first("" if failed is None else f"{type(failed).__name__}: {failed}")
            if said and not first:
                raise StorageError(f"process 0 could not begin the save: {said}")


def _told_by_the_first(text: str) -> str:
    told = np.frombuffer(text.encode()[:_SAID].ljust(_SAID, b"\0"), np.uint8)
    given: bytes = np.asarray(multihost_utils.broadcast_one_to_all(told)).tobytes()
    return given.rstrip(b"\0").decode(errors="replace")


def _make_room(store: Store, prefix: str | None, entries: tuple[Entry, ...], write_index: bool) -> None:
    """Remove the tree that is replaced, its index section first: a save that dies must not leave a mixture behind."""
    index = store.read_index()
    replaced: tuple[Entry, ...] = ()
    if index is not None and write_index:
        replaced = (index.prefixes.get(prefix) if prefix else index.arrays) or ()
        if replaced:
            store.change_index(lambda index: index.with_section(prefix, None))
    store.clear({entry.path: entry for entry in (*replaced, *entries)}.values())
