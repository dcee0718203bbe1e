"""Directories, object stores and the arrays in them, with TensorStore's silent defaults turned off."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorstore as ts
from attrs import frozen

from treaty.runtime._errors import CorruptCheckpointError, LeafError, MissingCheckpointError, cannot
from treaty.runtime._process.forks import use_tensorstore
from treaty.runtime._storage.claimed_sizes import bad_chunks
from treaty.runtime._storage.clouds import failure, is_of_storage, reason, spec_of
from treaty.runtime._storage.directories import make_directory, sync_directory
from treaty.runtime._storage.overtaken import Known, held_directory, mark, still
from treaty.runtime._storage.paths import for_tensorstore, path_or_url
from treaty.runtime.formats.eformer import INDEX
from treaty.runtime.formats.eformer.index import Entry, Index, parse, render
from treaty.schema import TreatyError

Directory = str | os.PathLike[str]

# Not in the array's own metadata: without the first a chunk of fill values is not written, and without the second a
# chunk that is gone is read as fill values.
_STRICT: Final = {"store_data_equal_to_fill_value": True, "fill_missing_data_reads": False}
_OF_AN_ARRAY: Final = re.compile(rb"\.zarray|\.zattrs|\d+(\.\d+)*")


@frozen
class Store:
    """One checkpoint directory: a local path, or a URL that TensorStore knows (gs://, s3://, file://)."""

    where: str
    root: dict[str, Any]

    @classmethod
    def at(cls, checkpoint_dir: Directory) -> "Store":
        use_tensorstore()
        where, is_url = path_or_url(checkpoint_dir)
        root = spec_of(f"{where.rstrip('/')}/") if is_url else {"driver": "file", "path": for_tensorstore(where)}
        return cls(where, root)

    def spec(self, entry: Entry) -> dict[str, Any]:
        path = self.root["path"] + ("" if entry.path == "." else f"{entry.path}/")
        return {"driver": "zarr", "kvstore": {**self.root, "path": path}, **_STRICT}

    def read_index(self) -> Index | None:
        return self._index(self._kv())[0]

    def require_index(self) -> Index:
        index = self.read_index()
        if index is None:
            raise MissingCheckpointError(
                f"expected {INDEX}, got none in {self.where}: not a checkpoint, or one never finished"
            )
        return index

    def change_index(self, change: Callable[[Index], Index]) -> None:
        """Read, change, write; again if someone else wrote in between."""
        kv = self._kv()
        while True:
            old, generation = self._index(kv)
            with wrote(f"{self.where.rstrip('/')}/{INDEX}"):
                done = kv.write(INDEX, render(change(old or Index())), if_equal=generation).result()
            if done.generation:  # empty when the condition did not hold
                return

    def known(self, held: ExitStack) -> Known:
        """By the index, and on a disk by the directories of arrays too: eformer writes into them before the index."""
        top = Path(self.root["path"]) if self.root["driver"] == "file" else None

        def look() -> object:
            try:
                index, generation = self._index(self._kv())
            except (TreatyError, ValueError):  # the reader says why
                return None
            sections = [index.arrays or (), *index.prefixes.values()] if index is not None and top is not None else []
            places = [mark(f"{top}/{entry.path}") for section in sections for entry in section]
            return generation, places, top and held_directory(top, held)

        return still(look)

    def open(self, entries: Sequence[Entry]) -> list[ts.TensorStore]:
        """Open every array and compare it with its entry; reads no data."""
        opening = [ts.open(self.spec(entry), open=True, read=True) for entry in entries]
        return [_checked(entry, future) for entry, future in zip(entries, opening, strict=True)]

    def write(self, entries: Sequence[Entry], arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        """Arrays of the host, one chunk each, as JAX's manager writes those of a single device."""
        opening = []
        for entry in entries:
            metadata = {"shape": entry.shape, "chunks": [max(1, n) for n in entry.shape], "compressor": {"id": "zstd"}}
            spec = {**self.spec(entry), "dtype": entry.dtype, "metadata": metadata}
            opening.append(ts.open(spec, create=True))
        writing: list[Any] = []
        try:
            for future, array in zip(opening, arrays, strict=True):
                writing.append(future.result().write(array, can_reference_source_data_indefinitely=True))
        finally:  # whoever cleans up after a failure must not meet writes that are still under way
            for one in (*opening, *writing):
                with suppress(Exception):
                    one.result()
        for write in writing:
            write.result()

    def clear(self, entries: Iterable[Entry]) -> None:
        """Delete the arrays that stand where `entries` belong, and nothing else that a directory may hold."""
        stores = [ts.KvStore.open(self.spec(entry)["kvstore"]).result() for entry in entries]
        found = [(kv, kv.read(".zarray")) for kv in stores]
        taken = [kv for kv, read in found if read.result().state == "value"]
        files = [(kv, key) for kv in taken for key in kv.list().result() if _OF_AN_ARRAY.fullmatch(key)]
        for deleting in [kv.write(key, None) for kv, key in files]:
            deleting.result()

    def make(self) -> None:
        """The local directory itself, made so that it survives a power cut."""
        if self.root["driver"] == "file":
            make_directory(Path(self.root["path"]))

    def sync(self, entries: Iterable[Entry]) -> None:
        """Likewise the directories below: TensorStore syncs what is in them, not their own names."""
        if self.root["driver"] == "file":
            top = Path(self.root["path"])
            for parent in {parent for entry in entries for parent in (top / entry.path).parents}:
                if parent.is_relative_to(top):
                    sync_directory(parent)

    def _index(self, kv: ts.KvStore) -> tuple[Index | None, bytes]:
        where = f"{self.where.rstrip('/')}/{INDEX}"
        try:
            found = kv.read(INDEX).result()
        except ValueError as error:
            raise failure(f"read {where}", error) from None
        return (parse(found.value, where) if found.state == "value" else None), found.stamp.generation

    def _kv(self) -> ts.KvStore:
        return ts.KvStore.open(self.root).result()


@contextmanager
def wrote(where: str) -> Iterator[None]:
    """Turn TensorStore's errors into one that says where, without what a server sent."""
    try:
        yield
    except TreatyError:
        raise
    except OSError as error:
        raise cannot("write", where, error) from error
    except (ValueError, NotImplementedError) as error:
        raise failure(f"write {where}", error) from None


@contextmanager
def naming(entry: Entry) -> Iterator[None]:
    """Turn TensorStore's errors into one that names the leaf: damage, unless the storage or the memory failed."""
    try:
        yield
    except (ValueError, NotImplementedError, MemoryError) as error:
        why = reason(error)
        if isinstance(error, MemoryError):
            raise LeafError(f"expected to read {entry}, got {why}") from None
        if is_of_storage(error):
            raise failure(f"read {entry}", error) from None
        raise CorruptCheckpointError(f"expected an intact array, got {why} at {entry}") from None


def _checked(entry: Entry, future: Any) -> ts.TensorStore:
    with naming(entry):
        store: ts.TensorStore = future.result()
    expected, got = (entry.dtype, entry.shape), (store.dtype.numpy_dtype.name, store.shape)
    if expected != got:
        shown = [f"{dtype}{list(shape)}" for dtype, shape in (expected, got)]
        raise CorruptCheckpointError(f"expected {shown[0]} as in the index, got {shown[1]} at {entry}")
    if problem := bad_chunks(store):
        raise CorruptCheckpointError(f"expected an intact array, got {problem} at {entry}")
    return store
