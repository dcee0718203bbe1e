"""Looking into checkpoints of other formats: which leaves there are. Arrays stay where they are."""

import tempfile
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen

from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime._lazy import LazyArray
from treaty.runtime._leaves.paths import INDEX
from treaty.runtime._leaves.store import Store
from treaty.runtime._overtaken import begin_again
from treaty.runtime._paths import path_or_url
from treaty.runtime._recognise import format_at, safetensors_in
from treaty.runtime._state.trees import flatten
from treaty.runtime._stored_sizes import missing_chunk
from treaty.runtime._uninterrupted import uninterrupted
from treaty.runtime.directory._places import place_of
from treaty.runtime.formats import _table as formats
from treaty.runtime.formats import orbax
from treaty.runtime.formats._known import looking_at
from treaty.schema.dtypes import BY_NAME


@frozen
class Listed:
    """A leaf; of what is no array only the path is told."""

    path: tuple[str, ...]
    dtype: str | None
    shape: tuple[int, ...]
    nbytes: int


@frozen
class Listing:
    """What a checkpoint of another format holds; none of them knows classes and dims."""

    path: str
    format: str
    leaves: tuple[Listed, ...]
    metadata: Mapping[str, Any] = field(factory=dict)
    class_id: None = None
    digest: None = None
    dims: Mapping[str, int] = field(factory=dict)

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        return sum(leaf.nbytes for leaf in self.leaves)


@uninterrupted
def inspect_other(path: str) -> Listing | None:
    """The leaves of a checkpoint of any format but Treaty's directories; None where there is no such."""
    place = path_or_url(path)[0]
    if format_at(place) == "treaty":
        return None
    return begin_again(place, looking_at(place), lambda: _inspect(place))


def _inspect(path: str) -> Listing | None:
    format = format_at(path)
    if format == "treaty":
        return None
    if format == "eformer":
        return Listing(path, format, tuple(_indexed(path)))
    if format == "orbax":
        orbax.require_files(path)
        return Listing(path, format, tuple(_listed(orbax.read_open(path))))
    with tempfile.TemporaryDirectory() as folder:
        place = safetensors_in(path) if format == "safetensors" else path
        found = formats.read(Path(place), format, Path(folder))
        return Listing(path, format, tuple(_listed(found.tree)), found.metadata)


def _listed(tree: Mapping[str, Any]) -> Iterator[Listed]:
    for path, leaf in flatten(tree):
        if isinstance(leaf, (np.ndarray, np.generic, LazyArray)):
            yield Listed(path, str(leaf.dtype), tuple(leaf.shape), leaf.nbytes)
        else:
            yield Listed(path, None, (), 0)


def _indexed(path: str) -> Iterator[Listed]:
    """The index says it all."""
    index = Store.at(path).read_index()
    if index is None:
        raise CorruptCheckpointError(f"expected {INDEX}, got none in {path}")
    stored = [*(index.arrays or ()), *chain.from_iterable(index.prefixes.values())]
    files = place_of(path).sizes(".")
    for entry, array in zip(stored, Store.at(path).open(stored), strict=True):
        if lost := missing_chunk(array, entry.path, files):
            raise CorruptCheckpointError(f"expected an intact array, got nothing in {lost} at {entry}")
    sections = [((), index.arrays or ()), *(((prefix,), entries) for prefix, entries in index.prefixes.items())]
    for above, entries in sections:
        for entry in entries:
            row = BY_NAME.get(entry.dtype)
            if row is None:
                raise CorruptCheckpointError(f"expected the name of a dtype, got {entry.dtype[:40]!r} at {entry}")
            nbytes = row.numpy.itemsize
            for size in entry.shape:
                nbytes *= size
            yield Listed((*above, *entry.keys), entry.dtype, entry.shape, nbytes)
