"""An open directory: leaves that share files are read file by file, all others chunk by chunk, and every byte is checked."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

from treaty.runtime._lazy import HostArray, LazyArray, Part, SharedArray, Start, read_by_bands
from treaty.runtime._process.collector import collector_paused
from treaty.runtime._process.workers import Workers
from treaty.runtime._restore.select import At, select
from treaty.runtime._restore.source import Source, says_nothing
from treaty.runtime._storage.memory import aligned
from treaty.runtime._storage.overtaken import Known
from treaty.runtime._trees import nest
from treaty.runtime.formats.directory.manifest import Manifest, parse
from treaty.runtime.formats.directory.places import Place, committed
from treaty.runtime.formats.directory.read import NUMPY, CheckpointReader
from treaty.schema import Schema


def open_source(path: str, known: Known) -> "DirectorySource":
    place, content = known.seen
    with collector_paused():
        return DirectorySource(place, parse(committed(place, content), place.where))


class DirectorySource(Source):
    def __init__(self, place: Place, manifest: Manifest) -> None:
        super().__init__(place.where, metadata=manifest.metadata)
        self.schema = manifest.schema
        self.revisions = manifest.revisions
        if says_nothing(manifest.schema):  # then what another format left open was stored as it looked
            self.is_exact, self.forgets_scalars = False, True
        self._leaves = manifest.leaves
        self._reader = CheckpointReader(place, manifest)
        self._files = [_PackFile(self._reader, index) for index in range(len(manifest.files))]

    def tree(self, schema: Schema | None = None, at: At = None) -> Any:
        """Of what is not wanted, no file needs to be there."""
        selected = select([(leaf.path, number) for number, leaf in enumerate(self._leaves)], at, self.where)
        self._reader.check_files(number for _, number in selected)
        values = self._values([number for _, number in selected if self._leaves[number].dtype is None])
        return nest((path, values[number] if number in values else self._array(number)) for path, number in selected)

    def _values(self, numbers: list[int]) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for file in {self._leaves[number].file for number in numbers}:
            assert file is not None  # a leaf that is not an array shares a file
            found |= self._reader.pack(file, [number for number in numbers if self._leaves[number].file == file])
        return found

    def _array(self, number: int) -> LazyArray:
        leaf = self._leaves[number]
        dtype = NUMPY[str(leaf.dtype)]
        if leaf.file is not None:
            return SharedArray.of(self._files[leaf.file], number, leaf.shape, dtype)
        return _chunked(self._reader, number)


class _PackFile:
    """A MessagePack file of small arrays."""

    def __init__(self, reader: CheckpointReader, index: int) -> None:
        leaves = reader.manifest.leaves
        self._numbers = [number for number, leaf in enumerate(leaves) if leaf.file == index and leaf.dtype is not None]
        # Whoever converts asks for one leaf after the other.
        self._all = lru_cache(maxsize=1)(lambda: reader.pack(index, self._numbers))

    def load(self, numbers: Sequence[int]) -> list[HostArray]:
        found = self._all()
        return [found[number] for number in numbers]


def _chunked(reader: CheckpointReader, number: int) -> LazyArray:
    """An array in files of its own."""
    leaf = reader.manifest.leaves[number]
    dtype = NUMPY[str(leaf.dtype)]
    fill = partial(reader.fill, number)

    def read() -> HostArray:
        memory = aligned(leaf.shape, dtype)
        fill(Part((0,) * len(leaf.shape), memory))
        return memory

    def parts() -> Iterator[HostArray]:
        with Workers(1, "treaty-read") as ahead:

            def begin(start: Start, memory: HostArray) -> Callable[[], object]:
                return ahead.begin(partial(fill, Part(start, memory)))

            yield from read_by_bands(leaf.shape, dtype, leaf.chunks, begin)

    return LazyArray(leaf.shape, dtype, read, parts, partial(reader.jobs, number))
