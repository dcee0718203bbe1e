"""Reading what a manifest names: every file must be there and as long as it should be, every byte is checked."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from treaty.runtime._errors import CorruptCheckpointError, show_keys
from treaty.runtime._lazy import Job, Part, Start, overlap
from treaty.runtime._process.uninterrupted import uninterrupted
from treaty.runtime._process.workers import Workers
from treaty.runtime._storage.memory import HostArray, aligned
from treaty.runtime.formats.directory.checksum import checksum
from treaty.runtime.formats.directory.layout import chunk_starts, metadata_files
from treaty.runtime.formats.directory.manifest import Leaf, Manifest
from treaty.runtime.formats.directory.places import Place
from treaty.runtime.formats.directory.presence import corrupt, require_files
from treaty.runtime.formats.msgpack.decode import decode
from treaty.schema.dtypes import BY_NAME

NUMPY: Final[Mapping[str, np.dtype[Any]]] = {name: row.numpy for name, row in BY_NAME.items()}

THREADS: Final = 4
_HEX: Final = re.compile(r"-?0x[0-9a-f]+\Z")


class CheckpointReader:
    """Reads what one manifest names."""

    def __init__(self, place: Place, manifest: Manifest) -> None:
        self.place = place
        self.manifest = manifest

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
            content = decode(memory.data)
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
    def fill(self, number: int, part: Part) -> None:
        """Fill a part of an array."""
        with Workers(THREADS, "treaty-read") as workers:
            for job in self.jobs(number, [part]):
                workers.add(job.run)

    @uninterrupted
    def check_chunks(self, number: int, advance: Callable[[int], None]) -> list[str]:
        """Read an array chunk by chunk and keep nothing; what is wrong with it."""
        leaf = self.manifest.leaves[number]

        problems: dict[int, list[str]] = {}

        def check(index: int, name: str, digest: str, size: int) -> None:
            memory = aligned(leaf.chunks, NUMPY[str(leaf.dtype)])
            try:
                self._fill_chunk(f"{number}/{name}", leaf, memory, digest, size)
            except CorruptCheckpointError as error:
                problems[index] = str(error).splitlines()[1:]
            advance(leaf.chunk_bytes)

        with Workers(THREADS, "treaty-read") as workers:
            for index, (_, name, digest, size) in enumerate(chunk_starts(leaf)):
                workers.add(partial(check, index, name, digest, size))
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

    def jobs(self, number: int, parts: Sequence[Part]) -> Iterator[Job]:
        """What fills parts of an array. Each chunk that one of them needs is read once, whole, and checked."""
        leaf = self.manifest.leaves[number]
        for start, name, digest, size in chunk_starts(leaf):
            touched = [part for part in parts if overlap(start, leaf.chunks, part) is not None]
            if touched:
                yield Job(self._job(f"{number}/{name}", leaf, start, digest, size, touched), leaf.chunk_bytes)

    def _job(
        self, name: str, leaf: Leaf, start: Start, digest: str, size: int, parts: list[Part]
    ) -> Callable[[], None]:
        def read() -> None:
            region = overlap(start, leaf.chunks, parts[0])
            assert region is not None
            inside: Any = (*region[1], ...)  # of an array without axes, too, a view and not its element
            direct = parts[0].memory[inside]
            if len(parts) == 1 and direct.shape == leaf.chunks and direct.flags.c_contiguous:
                self._fill_chunk(name, leaf, direct, digest, size)
                return
            chunk = aligned(leaf.chunks, parts[0].memory.dtype)
            self._fill_chunk(name, leaf, chunk, digest, size)
            for part in parts:
                both = overlap(start, leaf.chunks, part)
                assert both is not None
                part.memory[both[1]] = chunk[both[0]]

        return read

    def _fill_chunk(self, name: str, leaf: Leaf, memory: HostArray, digest: str, size: int) -> None:
        """The checksum is of the bytes that are stored, so that nothing is decompressed that was not written so."""
        at = show_keys(leaf.path)
        if leaf.codec is None:
            self._fill(name, memory.reshape(-1).view(np.uint8), digest, at)
            return
        from treaty.runtime.formats.directory.compression import decompress

        content = aligned([size], np.dtype(np.uint8))
        self._fill(name, content, digest, at)
        try:
            decompress(leaf, content, memory)
        except CorruptCheckpointError as error:
            raise corrupt(self.place, [f"{error} in {name} at {at}"]) from error

    def _fill(self, name: str, memory: HostArray, digest: str, at: str) -> None:
        suffix = f" at {at}" if at else ""
        try:
            found = self.place.read_into(f"{self.manifest.data}/{name}", memory.data)
        except CorruptCheckpointError as error:
            raise corrupt(self.place, [f"{error}{suffix}"]) from error
        if found != digest:
            raise corrupt(self.place, [f"expected checksum {digest}, got {found} in {name}{suffix}"])


def _is(value: Any, leaf: Leaf) -> bool:
    if leaf.is_hex:
        return type(value) is str and _HEX.match(value) is not None
    if leaf.dtype is None:
        return True
    return type(value) is np.ndarray and value.shape == leaf.shape and value.dtype == NUMPY[leaf.dtype]


def _described(leaf: Leaf) -> str:
    return "a number in hexadecimal digits" if leaf.dtype is None else f"{leaf.dtype}{list(leaf.shape)}"
