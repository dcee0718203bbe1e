"""One item of an Orbax checkpoint as a state dict: `_METADATA` says what is where, TensorStore opens the arrays.

An array is stored under its keys joined with dots, in OCDBT or as a directory; strings share `_strings.json`; what is
empty is in the metadata alone. The words of a PRNG key are an array, its implementation is in `array_metadatas/`.
Before 0.5 small leaves could be in the file `checkpoint`, and before 0.4 that was all the metadata there was.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorstore as ts
from attrs import frozen

from treaty.runtime._errors import CorruptCheckpointError, IncompleteCheckpointError, show_keys
from treaty.runtime._lazy import LazyArray, MaybeScalar, StoredScalar
from treaty.runtime._process.forks import use_tensorstore
from treaty.runtime._storage.claimed_sizes import bad_chunks
from treaty.runtime._storage.clouds import FAILURES, failure, is_of_storage
from treaty.runtime._storage.paths import for_tensorstore, is_stray
from treaty.runtime._trees import MOST_LEVELS, nest
from treaty.runtime.formats.orbax.aggregate import AGGREGATE, read_aggregate, stored_elsewhere
from treaty.runtime.formats.orbax.find import ARRAY_METADATA, METADATA, OCDBT, STRINGS, read_json
from treaty.runtime.formats.shared.stored_arrays import stored_array
from treaty.schema.dtypes import KEY_IMPLS

KEY_IMPL: Final = "random_key_impl"
_EMPTY: Final[Mapping[str, Any]] = {"None": None, "Dict": {}, "List": {}, "Tuple": {}, "NamedTuple": {}}
_UNKNOWN: Final = "unknown"  # an array, or a Python number: before 0.4 Orbax did not say
_INSIDE: Final = "inside"  # the file `checkpoint`
_ARRAYS: Final = ("jax.Array", "np.ndarray", "scalar", _UNKNOWN)
_BYTES: Final = 2**62  # no array is larger


@frozen
class _ItemEntry:
    path: tuple[str, ...]
    kind: str
    write_shape: tuple[int, ...] | None = None
    value: Any = None  # of what is inside

    @property
    def name(self) -> str:
        return ".".join(self.path)


def read_item(item: Path) -> dict[str, Any]:
    """The state dict of an item; only metadata, strings and Python scalars are read."""
    use_tensorstore()
    has_metadata = (item / METADATA).is_file()
    metadata = read_json(item / METADATA) if has_metadata else {}
    found = _entries(metadata, item) if has_metadata else _old_entries(item)
    entries = list(found)
    nodes = {entry.path[:depth] for entry in entries for depth in range(1, len(entry.path))}
    # A partial save leaves the empty node that it filled.
    wanted = [entry for entry in entries if entry.kind not in _EMPTY or entry.path not in nodes]
    tree: dict[str, Any] = nest((entry.path, leaf) for entry, leaf in _leaves(item, metadata, wanted))
    return tree


def _entries(metadata: dict[str, Any], item: Path) -> Iterator[_ItemEntry]:
    inside: dict[tuple[str, ...], Any] | None = None
    try:
        for one in metadata["tree_metadata"].values():
            value, keys = one["value_metadata"], one["key_metadata"]
            path = tuple(key["key"] for key in keys)
            shape = value.get("write_shape")
            entry = _ItemEntry(path, value["value_type"], None if shape is None else tuple(shape))
            sound = all(type(key) is str for key in (*path, entry.kind)) and all(type(n) is int for n in shape or ())
            if not path or len(path) > MOST_LEVELS or not sound:
                raise ValueError(str(one)[:80])
            if value.get("skip_deserialize") is True and entry.kind not in _EMPTY:
                inside = read_aggregate(item) if inside is None else inside
                entry = _ItemEntry(path, _INSIDE, value=_inside(inside, path, item))
            yield entry
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptCheckpointError(
            f"expected keys and values of leaves, got {error!r} in {item / METADATA}"
        ) from None


def _inside(leaves: Mapping[tuple[str, ...], Any], path: tuple[str, ...], item: Path) -> Any:
    if path not in leaves:
        raise IncompleteCheckpointError(f"expected a leaf, got nothing at {show_keys(path)} in {item / AGGREGATE}")
    return leaves[path]


def _old_entries(item: Path) -> Iterator[_ItemEntry]:
    for path, leaf in read_aggregate(item).items():
        name = stored_elsewhere(leaf)
        if name is not None and name != ".".join(path):
            raise CorruptCheckpointError(f"expected an array of its own, got {name[:80]!r} at {show_keys(path)}")
        yield _ItemEntry(path, _INSIDE, value=leaf) if name is None else _ItemEntry(path, _UNKNOWN)


def _leaves(item: Path, metadata: dict[str, Any], entries: list[_ItemEntry]) -> Iterator[tuple[_ItemEntry, Any]]:
    arrays = {entry.name: entry for entry in entries if entry.kind in _ARRAYS}
    strings = read_json(item / STRINGS) if any(entry.kind == "string" for entry in entries) else {}
    impls = _key_impls(item)
    store = _ItemStore.of(item, metadata) if arrays else None  # without any there is nothing to open
    opening = {name: store.open(entry) for name, entry in arrays.items()} if store else {}
    for entry in entries:
        if entry.kind in _EMPTY:
            yield entry, {} if _EMPTY[entry.kind] is not None else None
        elif entry.kind == _INSIDE:
            yield entry, entry.value
        elif entry.kind == "string":
            yield entry, _string(strings, entry, item)
        elif store is not None and arrays.get(entry.name) is entry:
            yield entry, _array(entry, store.opened(entry, opening[entry.name]), impls.get(entry.name))
        elif entry.kind in _ARRAYS:
            other = show_keys(arrays[entry.name].path)
            raise CorruptCheckpointError(
                f"expected arrays of their own, got one for {show_keys(entry.path)} and {other}"
            )
        else:
            raise CorruptCheckpointError(
                f"expected an array, a scalar or a string, got {entry.kind[:80]!r} at {show_keys(entry.path)}"
            )


@frozen
class _ItemStore:
    """How the arrays of an item are opened."""

    base: dict[str, Any]
    driver: str
    ocdbt: bool
    strict: bool
    context: Any

    @classmethod
    def of(cls, item: Path, metadata: dict[str, Any]) -> "_ItemStore":
        ocdbt = metadata.get("use_ocdbt")
        ocdbt = (item / OCDBT).exists() if ocdbt is None else bool(ocdbt)
        if ocdbt and not (item / OCDBT).exists():
            raise IncompleteCheckpointError(f"expected {OCDBT}, got nothing in {item}")
        return cls(
            base={"driver": "file", "path": for_tensorstore(item)},
            driver="zarr3" if metadata.get("use_zarr3") else "zarr",
            ocdbt=ocdbt,
            # Where all was stored, a chunk that is not there is lost. Older Orbax left out zeros, if they were the fill.
            strict=metadata.get("store_array_data_equal_to_fill_value") is True,
            context=ts.Context(
                {"cache_pool": {"total_bytes_limit": 0}, "cache_pool#ocdbt": {"total_bytes_limit": 10**8}}
            ),
        )

    def open(self, entry: _ItemEntry) -> Any:
        if self.ocdbt:
            kvstore = {"driver": "ocdbt", "base": self.base, "path": f"{entry.name}/", "cache_pool": "cache_pool#ocdbt"}
        else:
            if entry.name.startswith("/") or any(part in ("", ".", "..") for part in entry.name.split("/")):
                raise CorruptCheckpointError(f"expected a place below the checkpoint, got {show_keys(entry.path)}")
            kvstore = {"driver": "file", "path": f"{self.base['path']}{entry.name}/"}
        spec = {"driver": self.driver, "kvstore": kvstore, "fill_missing_data_reads": False}
        with _reading(entry.path):
            return ts.open(spec, read=True, open=True, context=self.context)

    def opened(self, entry: _ItemEntry, opening: Any) -> Any:
        with _reading(entry.path):
            found = opening.result()
            if self.strict or found.fill_value is None:
                return found
            spec = {**found.spec().to_json(), "fill_missing_data_reads": True}
            return ts.open(spec, read=True, open=True, context=self.context).result()


def _array(entry: _ItemEntry, store: Any, impl: Any) -> Any:
    shape, dtype = tuple(store.shape), store.dtype.numpy_dtype
    if math.prod(shape) * dtype.itemsize > _BYTES:
        raise CorruptCheckpointError(f"expected an array, got {dtype}{list(shape)} at {show_keys(entry.path)}")
    if problem := bad_chunks(store):
        raise CorruptCheckpointError(f"expected an array, got {problem} at {show_keys(entry.path)}")
    part = entry.write_shape
    if part is not None and (len(part) != len(shape) or any(a > b for a, b in zip(part, shape, strict=True))):
        raise CorruptCheckpointError(
            f"expected an array with parts of {list(part)}, got {list(shape)} at {show_keys(entry.path)}"
        )
    if entry.kind == "scalar":
        if shape:
            raise CorruptCheckpointError(f"expected a scalar, got {dtype}{list(shape)} at {show_keys(entry.path)}")
        reading = store.read()
        return StoredScalar(shape, dtype, lambda: _result(reading.result, entry.path))
    kind = MaybeScalar if entry.kind == _UNKNOWN and not shape else LazyArray
    array = stored_array(store, partial(_result, path=entry.path), kind)
    if impl is None:
        return array
    if type(impl) is not str or impl not in KEY_IMPLS or dtype != np.uint32 or shape[-1:] != (KEY_IMPLS[impl],):
        raise CorruptCheckpointError(
            f"expected words of a PRNG key, got {dtype}{list(shape)} for {str(impl)[:40]!r} at {show_keys(entry.path)}"
        )
    return {"impl": impl, "data": array}


def _result(read: Callable[[], Any], path: tuple[str, ...]) -> Any:
    with _reading(path):
        return read()


@contextmanager
def _reading(path: tuple[str, ...]) -> Iterator[None]:
    """Let what TensorStore raises name the array: damage, unless the storage failed."""
    at = show_keys(path)
    try:
        yield
    except (*FAILURES, MemoryError) as error:
        if "NOT_FOUND" in str(error):
            raise IncompleteCheckpointError(
                f"expected an array, got nothing or only part of it at {at}: {error}"
            ) from None
        if isinstance(error, MemoryError):
            raise CorruptCheckpointError(f"expected an array, got {error} at {at}") from None
        if is_of_storage(error):
            raise failure(f"read {at}", error) from None
        raise CorruptCheckpointError(f"expected an array, got damaged bytes at {at}: {error}") from None


def _key_impls(item: Path) -> dict[str, str]:
    """Implementations of the PRNG keys among the arrays. Each process wrote a file; older Orbax wrote none."""
    impls: dict[str, str] = {}
    directory = item / ARRAY_METADATA
    for file in sorted(directory.iterdir()) if directory.is_dir() else ():
        if is_stray(file.name):
            continue
        try:
            for one in read_json(file)["array_metadatas"]:
                array = one["array_metadata"]
                if array.get("ext_metadata"):
                    impls[array["param_name"]] = array["ext_metadata"][KEY_IMPL]
        except (KeyError, TypeError, AttributeError) as error:
            raise CorruptCheckpointError(f"expected metadata of arrays, got {error!r} in {file}") from None
    return impls


def _string(strings: Any, entry: _ItemEntry, item: Path) -> str:
    """Strings are found by JSON pointer, so that a slash in a key is a level of its own."""
    found = strings
    for key in entry.name.split("/"):
        found = found.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    if not isinstance(found, str):
        kind = "nothing" if found is None else type(found).__name__
        raise IncompleteCheckpointError(f"expected a string, got {kind} at {show_keys(entry.path)} in {item / STRINGS}")
    return found
