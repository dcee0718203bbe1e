"""Writing Orbax's layout: one item, OCDBT and zarr3, in a workspace until all of it is on the disk."""

import base64
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
import tensorstore as ts

from treaty.runtime._errors import InvalidArgumentError, show_path, storing
from treaty.runtime._lazy import PIECE_BYTES, LazyArray, Part, Start, by_bands, chunk_of
from treaty.runtime._process.forks import use_tensorstore
from treaty.runtime._process.uninterrupted import uninterrupted
from treaty.runtime._process.workers import in_threads
from treaty.runtime._storage.clouds import FAILURES, failure
from treaty.runtime._storage.directories import sync_directory
from treaty.runtime._storage.paths import for_tensorstore
from treaty.runtime._storage.system import start_writing
from treaty.runtime._storage.workspace import workspace
from treaty.runtime.formats.orbax.find import (
    ARRAY_METADATA,
    COMMITTED,
    METADATA,
    STEP_METADATA,
    STRINGS,
    TEMPORARY,
)
from treaty.runtime.formats.orbax.leaves import ItemLeaf
from treaty.runtime.formats.orbax.read import KEY_IMPL
from treaty.runtime.formats.shared.write_queue import WriteQueue
from treaty.schema import TreatyError

_CHUNK: Final = PIECE_BYTES  # of an array are stored, and can be read, as one: no piece is copied to make a chunk
_SMALL: Final = 2**20  # bytes below which arrays share a commit
_BATCH: Final = 64 * 2**20  # bytes that are being written, or wait for their commit
_LOCK: Final = ".__lock"  # the end of names of files that TensorStore is still writing
_HANDLER: Final = "orbax.checkpoint._src.handlers.standard_checkpoint_handler.StandardCheckpointHandler"


@uninterrupted
def write_item(path: Path, leaves: Sequence[ItemLeaf]) -> None:
    """All of it or nothing is at `path` afterwards, also after a power cut."""
    use_tensorstore()
    if os.path.lexists(path):
        raise TreatyError(f"expected a path that is free, got {path}, which is there; remove it first")
    started = time.time_ns()
    place = Path(os.path.realpath(path))
    for_tensorstore(place)
    strings = _strings(leaves)
    with storing("write", path):
        with workspace(place) as space:
            temporary = space.folder / f"{place.name[:40]}{TEMPORARY}"  # which Orbax takes for no step either
            temporary.mkdir()
            _fill(temporary, leaves, strings, started)
            _write(temporary / COMMITTED, f"Checkpoint commit was successful to {place}".encode())
            _sync(temporary)
            temporary.rename(place)
        sync_directory(place.parent)


def _fill(item: Path, leaves: Sequence[ItemLeaf], strings: dict[str, Any], started: int) -> None:
    _write_arrays(item, [leaf for leaf in leaves if leaf.value is not None and leaf.kind != "string"])
    if strings:
        _write_json(item / STRINGS, strings)
    keys = [leaf for leaf in leaves if leaf.impl is not None]
    if keys:
        (item / ARRAY_METADATA).mkdir()
        _write_json(item / ARRAY_METADATA / "process_0", {"array_metadatas": list(map(_array_metadata, keys))})
        _write_json(item / "_sharding", dict(map(_sharding, keys)))
    _write_json(item / METADATA, _metadata(leaves))
    _write_json(item / STEP_METADATA, _step_metadata(started))


def _write_arrays(directory: Path, leaves: Sequence[ItemLeaf]) -> None:
    """First, in one commit of OCDBT, what describes the arrays, and small ones whole; then the chunks of large ones."""
    # Each file is synced by us, once, before the item takes its place, and not with every write.
    context = ts.Context(
        {"cache_pool": {"total_bytes_limit": 0}, "file_io_sync": False, "file_io_locking": {"mode": "none"}}
    )
    base = {"driver": "ocdbt", "base": {"driver": "file", "path": for_tensorstore(directory)}}
    batch, held = ts.Transaction(), 0
    for leaf in leaves:
        store = _opened(_spec(base, leaf) | {"create": True}, leaf, context, batch)
        if leaf.value.nbytes < _SMALL:
            _wait_for(store.write(_host(leaf.value, leaf)), leaf)
            held += leaf.value.nbytes
            if held > _BATCH:
                _commit(batch)
                batch, held = ts.Transaction(), 0
    _commit(batch)
    hurry = partial(_start_writing, directory / "d", set())
    with WriteQueue(_BATCH) as writes:
        for leaf in leaves:
            if leaf.value.nbytes >= _SMALL:
                store = _opened(_spec(base, leaf) | {"open": True, "assume_metadata": True}, leaf, context, None)
                for start, part in _parts(leaf):
                    future = store[Part(start, part).box].write(part, can_reference_source_data_indefinitely=True)
                    writes.add(part.nbytes, partial(_wait_for, future, leaf), hurry)


def _start_writing(directory: Path, started: set[str]) -> None:
    """What is written is on its way to the disk while others follow."""
    for entry in os.scandir(directory):
        if entry.name not in started and not entry.name.endswith(_LOCK):
            started.add(entry.name)
            with suppress(FileNotFoundError), open(entry.path, "rb") as file:
                start_writing(file.fileno(), 0, 0)


def _wait_for(future: Any, leaf: ItemLeaf) -> Any:
    return _result(future.result, f"{leaf.value.dtype}{list(leaf.value.shape)} at {show_path(leaf.path)}")


def _opened(spec: dict[str, Any], leaf: ItemLeaf, context: Any, transaction: Any) -> Any:
    return _wait_for(ts.open(spec, context=context, transaction=transaction), leaf)


def _parts(leaf: ItemLeaf) -> Iterator[tuple[Start, Any]]:
    if isinstance(leaf.value, LazyArray):
        yield from ((start, _host(part, leaf)) for start, part in by_bands(leaf.value, _chunk(leaf.value)))
    else:
        yield (0,) * leaf.value.ndim, _host(leaf.value, leaf)


def _commit(batch: Any) -> None:
    _result(batch.commit_sync, "arrays")


def _result(wait: Callable[[], Any], what: str) -> Any:
    try:
        return wait()
    except FAILURES as error:
        raise failure(f"write {what}", error) from error


def _sync(directory: Path) -> None:
    """Files by several threads, since each waits for the disk; then the directories that name them."""
    found = [(Path(folder), names) for folder, _, names in os.walk(directory)]
    in_threads("treaty-sync", sync_directory, [folder / name for folder, names in found for name in names])
    for folder, _ in reversed(found):
        sync_directory(folder)


def _spec(base: dict[str, Any], leaf: ItemLeaf) -> dict[str, Any]:
    array = leaf.value
    return {
        "driver": "zarr3",
        "kvstore": {**base, "path": f"{leaf.name}/"},
        "metadata": {
            "shape": array.shape,
            "data_type": ts.dtype(array.dtype.newbyteorder("=")).name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": _chunk(array)}},
            # No crc32c, which copies every chunk: Orbax's own files have none either.
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        },
        "store_data_equal_to_fill_value": True,
    }


def _host(value: Any, leaf: ItemLeaf) -> Any:
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        raise InvalidArgumentError(f"expected an array of this process, got one of several at {show_path(leaf.path)}")
    array = np.asarray(value)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _chunk(array: Any) -> list[int]:
    return chunk_of(array.shape, array.dtype.itemsize, _CHUNK)


def _metadata(leaves: Sequence[ItemLeaf]) -> dict[str, Any]:
    return {
        "tree_metadata": {str(leaf.path): _leaf_metadata(leaf) for leaf in leaves},
        "use_ocdbt": True,
        "use_zarr3": True,
        "store_array_data_equal_to_fill_value": True,
        "custom_metadata": None,
    }


def _leaf_metadata(leaf: ItemLeaf) -> dict[str, Any]:
    return {
        "key_metadata": [{"key": key, "key_type": key_type} for key, key_type in leaf.keys],
        "value_metadata": {"value_type": leaf.kind, "skip_deserialize": leaf.value is None},
    }


def _array_metadata(leaf: ItemLeaf) -> dict[str, Any]:
    shape = list(leaf.value.shape)
    said = {"param_name": leaf.name, "write_shape": shape, "chunk_shape": shape, "ext_metadata": {KEY_IMPL: leaf.impl}}
    return {"array_metadata": said}


def _sharding(leaf: ItemLeaf) -> tuple[str, str]:
    """Orbax makes keys jax arrays only, and without a target wants to be told where; other arrays come back as numpy."""
    device = jax.local_devices()[0]
    said = {"sharding_type": "SingleDeviceSharding", "device_str": str(device)}
    return base64.b64encode(leaf.name.encode()).decode(), json.dumps(said)


def _step_metadata(started: int) -> dict[str, Any]:
    return {
        "item_handlers": _HANDLER,
        "metrics": {},
        "performance_metrics": {},
        "init_timestamp_nsecs": started,
        "commit_timestamp_nsecs": time.time_ns(),
        "custom_metadata": {},
    }


def _strings(leaves: Sequence[ItemLeaf]) -> dict[str, Any]:
    """Strings by JSON pointer: Orbax makes a slash in a key a level of its own."""
    tree: dict[str, Any] = {}
    for leaf in leaves:
        if leaf.kind != "string":
            continue
        *above, last = leaf.name.split("/")
        node: Any = tree
        for key in above:
            node = node.setdefault(key, {}) if isinstance(node, dict) else None
        if not isinstance(node, dict) or last in node or "~" in leaf.name:
            raise InvalidArgumentError(f"expected a key that is a JSON pointer of its own, got {show_path(leaf.path)}")
        node[last] = leaf.value
    return tree


def _write_json(path: Path, data: object) -> None:
    _write(path, json.dumps(data).encode())


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)  # synced with all the rest
