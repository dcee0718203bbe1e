"""Reading what a manifest names: every file must be there and as long as it should be, every byte is checked."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

import numpy as np
from attrs import frozen

from treaty.runtime._errors import CorruptCheckpointError, show_keys
from treaty.runtime._memory import HostArray, aligned
from treaty.runtime._uninterrupted import uninterrupted
from treaty.runtime._workers import Job, Workers
from treaty.runtime.directory._hash import checksum
from treaty.runtime.directory._layout import Start, chunk_starts, metadata_files
from treaty.runtime.directory._manifest import Leaf, Manifest, parse
from treaty.runtime.directory._places import PathLike, Place, use_committed
from treaty.runtime.directory._presence import corrupt, require_files
from treaty.runtime.formats import msgpack
from treaty.schema.dtypes import BY_NAME

NUMPY: Final[Mapping[str, np.dtype[Any]]] = {name: row.numpy for name, row in BY_NAME.items()}
_T = TypeVar("_T")

THREADS: Final = 4
_HEX: Final = re.compile(r"-?0x[0-9a-f]+\Z")


@frozen
class Part:
    """A region of an array that the caller wants, and memory for it."""

    start: Start
    memory: HostArray

    @property
    def stop(self) -> Start:
        return tuple(first + size for first, size in zip(self.start, self.memory.shape, strict=True))


def read_committed(path: PathLike, use: Callable[[Place, Manifest], _T]) -> _T:
    """Use the committed manifest; begin again if meanwhile another save took its place and removed the files."""
    return use_committed(path, lambda place, content: use(place, parse(content, place.where)))


class Reader:
    """Reads one checkpoint."""

    def __init__(self, place: Place, manifest: Manifest, advance: Callable[[int], None] = lambda _: None) -> None:
        self.place = place
        self.manifest = manifest
        self._advance = advance

    def check_files(self, wanted: Iterable[int]) -> None:
        """Before anything is read or allocated: what is wanted is there in full length, and nothing strange is."""
        manifest = self.manifest
        require_files(self.place, manifest.data, manifest.files, manifest.leaves, set(wanted))

    def pack(self, index: int, wanted: Iterable[int]) -> dict[int, Any]:
        """Leaves of a MessagePack file, by number; arrays are views of one buffer."""
        file = self.manifest.files[index]
        memory = aligned([file.size], np.dtype(np.uint8))
        self._fill(file.name, memory, file.checksum, "")
        try:
            content = msgpack.unpack(memory.data)
        except CorruptCheckpointError as error:
            raise corrupt(self.place, [f"{error} in {file.name}"]) from error
        expected = {str(number): leaf for number, leaf in enumerate(self.manifest.leaves) if leaf.file == index}
        if type(content) is not dict or content.keys() != expected.keys():
            raise corrupt(self.place, [f"expected {len(expected)} leaves, got others in {file.name}"])
        problems = [
            f"expected {_described(leaf)}, got another value in {file.name} at {show_keys(leaf.path)}"
            for key, leaf in expected.items()
            if not _is(content[key], leaf)
        ]
        if problems:
            raise corrupt(self.place, problems)
        return {
            number: int(content[str(number)], 16) if self.manifest.leaves[number].is_hex else content[str(number)]
            for number in wanted
        }

    @uninterrupted
    def arrays(self, wanted: Mapping[int, Sequence[Part]]) -> None:
        """Fill parts of arrays. Each chunk that one of them needs is read once, whole, and checked."""
        jobs = chain.from_iterable(self._jobs(number, parts) for number, parts in wanted.items())
        with Workers(THREADS, "treaty-read") as workers:
            for job in jobs:
                workers.add(job)

    @uninterrupted
    def check_chunks(self, number: int) -> list[str]:
        """Read an array chunk by chunk and keep nothing; what is wrong with it."""
        leaf = self.manifest.leaves[number]

        problems: dict[int, list[str]] = {}

        def check(index: int, name: str, digest: str) -> None:
            memory = aligned([leaf.chunk_bytes], np.dtype(np.uint8))
            try:
                self._fill(f"{number}/{name}", memory, digest, show_keys(leaf.path))
            except CorruptCheckpointError as error:
                problems[index] = str(error).splitlines()[1:]

        with Workers(THREADS, "treaty-read") as workers:
            for index, (_, name, digest) in enumerate(chunk_starts(leaf)):
                workers.add(partial(check, index, name, digest))
        return [problem for index in sorted(problems) for problem in problems[index]]

    def check_metadata(self) -> list[str]:
        """What is wrong with the files that only other readers of zarr use."""
        problems = []
        for name, content in metadata_files(self.manifest.leaves):
            try:
                self._fill(name, np.empty(len(content), np.uint8), checksum(content), "")
            except CorruptCheckpointError as error:
                problems += str(error).splitlines()[1:]
        return problems

    def _jobs(self, number: int, parts: Sequence[Part]) -> Iterable[Job]:
        leaf = self.manifest.leaves[number]
        for start, name, digest in chunk_starts(leaf):
            touched = [part for part in parts if _overlap(start, leaf.chunks, part) is not None]
            if touched:
                yield self._job(f"{number}/{name}", leaf, start, digest, touched)

    def _job(self, name: str, leaf: Leaf, start: Start, digest: str, parts: list[Part]) -> Job:
        def read() -> None:
            region = _overlap(start, leaf.chunks, parts[0])
            assert region is not None
            direct = parts[0].memory[region[1]]
            if len(parts) == 1 and direct.shape == leaf.chunks and direct.flags.c_contiguous:
                self._fill(name, direct.reshape(-1).view(np.uint8), digest, show_keys(leaf.path))
                return
            chunk = aligned(leaf.chunks, parts[0].memory.dtype)
            self._fill(name, chunk.reshape(-1).view(np.uint8), digest, show_keys(leaf.path))
            for part in parts:
                overlap = _overlap(start, leaf.chunks, part)
                assert overlap is not None
                part.memory[overlap[1]] = chunk[overlap[0]]

        return read

    def _fill(self, name: str, memory: HostArray, digest: str, at: str) -> None:
        suffix = f" at {at}" if at else ""
        try:
            found = self.place.read_into(f"{self.manifest.data}/{name}", memory.data)
        except CorruptCheckpointError as error:
            raise corrupt(self.place, [f"{error}{suffix}"]) from error
        if found != digest:
            raise corrupt(self.place, [f"expected checksum {digest}, got {found} in {name}{suffix}"])
        self._advance(memory.nbytes)


def _overlap(start: Start, size: Start, part: Part) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Where a chunk and a part meet: as a region of the chunk, and as one of the part's memory."""
    of_chunk, of_part = [], []
    for first, length, begin, end in zip(start, size, part.start, part.stop, strict=True):
        low, high = max(first, begin), min(first + length, end)
        if low >= high:
            return None
        of_chunk.append(slice(low - first, high - first))
        of_part.append(slice(low - begin, high - begin))
    return tuple(of_chunk), tuple(of_part)


def _is(value: Any, leaf: Leaf) -> bool:
    if leaf.is_hex:
        return type(value) is str and _HEX.match(value) is not None
    if leaf.dtype is None:
        return True
    return type(value) is np.ndarray and value.shape == leaf.shape and value.dtype == NUMPY[leaf.dtype]


def _described(leaf: Leaf) -> str:
    return "a number in hexadecimal digits" if leaf.dtype is None else f"{leaf.dtype}{list(leaf.shape)}"
