"""An array that lies in an archive as it is in memory, read as a whole and checked, or box by box."""

import math
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from attrs import frozen

from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime._lazy import PIECE_BYTES, HostArray, Job, LazyArray, Part, by_bands, chunk_of, covers, overlap
from treaty.runtime._storage.memory import aligned
from treaty.runtime._storage.open_file import OpenFile

_SHORT: Final = 2**12  # bytes in a row that are worth a call of their own
_FAR: Final = 2**16  # bytes that are not read only because they lie between others
_BYTES: Final = np.dtype(np.uint8)


@frozen
class Stored:
    """Where the elements of an array lie, and the checksum of the member, whose header it covers too."""

    file: OpenFile
    at: int
    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    header: int  # the checksum so far
    checksum: int
    place: str

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def read(self) -> HostArray:
        """All elements as bytes, which nobody may change."""
        memory = aligned((self.size,), _BYTES)
        self._fill_all(memory)
        memory.flags.writeable = False
        return memory

    def parts(self) -> Iterator[HostArray]:
        """As `read`, piece by piece; the checksum is known at the end."""
        total, done = self.header, 0
        most = PIECE_BYTES // self.dtype.itemsize * self.dtype.itemsize or self.dtype.itemsize
        while done < self.size:
            memory = aligned((min(most, self.size - done),), _BYTES)
            self.file.fill(memory, self.at + done, self.place)
            total, done = zlib.crc32(memory.data, total), done + memory.size
            yield memory.view(self.dtype)
        self._check(total)

    def jobs(self, wanted: Sequence[Part]) -> Iterator[Job]:
        """What fills parts. The checksum covers the whole member: parts that are together all of it are checked, so that
        one process never takes a damaged array for a sound one; of less, every element is taken as it is found.
        """
        if not covers(self.shape, wanted):
            for part in wanted:
                yield Job(partial(self._fill_box, self.at, self.shape, part.start, part.memory), part.memory.nbytes)
        elif len(wanted) == 1 and wanted[0].memory.flags.c_contiguous:
            yield Job(partial(self._fill_all, wanted[0].memory.reshape(-1).view(_BYTES)), self.size)
        else:
            yield Job(partial(self._spread, wanted), self.size)

    def _fill_all(self, memory: HostArray) -> None:
        self.file.fill(memory, self.at, self.place)
        self._check(zlib.crc32(memory.data, self.header))

    def _spread(self, wanted: Sequence[Part]) -> None:
        """Read once from the first to the last element, and give each part what is its."""
        whole = LazyArray(self.shape, self.dtype, self.read, self.parts)
        for start, band in by_bands(whole, chunk_of(self.shape, self.dtype.itemsize, PIECE_BYTES)):
            for part in wanted:
                both = overlap(start, band.shape, part)
                if both is not None:
                    part.memory[both[1]] = band[both[0]]

    def _fill_box(self, at: int, shape: tuple[int, ...], start: tuple[int, ...], memory: HostArray) -> None:
        """A box of an array of some shape at a place of the file. Where its rows lie close together, what is between them
        is read too: a call for each would take longer.
        """
        if not memory.size:
            return
        row = math.prod(shape[1:]) * self.dtype.itemsize
        if memory.shape[1:] == shape[1:] and memory.flags.c_contiguous:
            first = start[0] if start else 0
            self.file.fill(memory.reshape(-1).view(_BYTES), at + first * row, self.place)
        elif _run(shape, memory) * self.dtype.itemsize >= _SHORT or row >= _FAR:
            for number in range(memory.shape[0]):
                self._fill_box(at + (start[0] + number) * row, shape[1:], start[1:], memory[number, ...])
        else:
            inner: Any = (slice(None), *(slice(a, a + b) for a, b in zip(start[1:], memory.shape[1:], strict=True)))
            count = PIECE_BYTES // row
            for number in range(0, memory.shape[0], count):
                some = memory[number : number + count]
                band = aligned((len(some), *shape[1:]), self.dtype)
                self.file.fill(band.reshape(-1).view(_BYTES), at + (start[0] + number) * row, self.place)
                some[...] = band[inner]

    def _check(self, found: int) -> None:
        if found != self.checksum:
            raise CorruptCheckpointError(f"expected checksum {self.checksum:08x}, got another at {self.place}")


def _run(shape: tuple[int, ...], box: HostArray) -> int:
    """How many elements of a box lie side by side in an array, and can be read into its memory at once."""
    if not box.flags.c_contiguous:
        return 0
    count = 1
    for size, length in zip(reversed(shape), reversed(box.shape), strict=True):
        count *= length
        if length != size:
            break
    return count
