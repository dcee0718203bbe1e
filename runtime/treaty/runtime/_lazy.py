"""Arrays that stay where they are stored until someone asks for them: whole, piece by piece, or in parts."""

import math
import mmap
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import attrs
import numpy as np

from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime._storage.memory import aligned

HostArray: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

Start: TypeAlias = tuple[int, ...]

_AHEAD: Final = 2**25  # bytes of a stored array that are worth reading while others are written
PIECE_BYTES: Final = 2**23  # large enough for a disk, small enough to be held a few times over
_LAG: Final = 2**27  # bytes that whoever passes over a file may still have to write


class Part(NamedTuple):
    """A box of an array that someone wants, and memory for it, which tells its shape."""

    start: Start
    memory: HostArray

    @property
    def stop(self) -> Start:
        return tuple(first + size for first, size in zip(self.start, self.memory.shape, strict=True))

    @property
    def box(self) -> tuple[slice, ...]:
        return tuple(slice(first, last) for first, last in zip(self.start, self.stop, strict=True))


class Job(NamedTuple):
    """Work that fills memory, for any thread, and how many bytes it reads."""

    run: Callable[[], None]
    nbytes: int


@attrs.frozen(eq=False)
class LazyArray:
    """The shape and dtype of a stored array, and how to get its contents onto the host.

    `parts` gives its elements in C order as flat arrays, for sources that need not be in memory as a whole. `jobs` says
    what fills boxes, whose memory may be strided; without it, whoever wants a box has to read the whole.
    """

    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    read: Callable[[], HostArray]
    parts: Callable[[], Iterator[HostArray]] | None = None
    jobs: Callable[[Sequence[Part]], Iterator[Job]] | None = None
    checked_whole: bool = False  # whether damage is noticed only where all of it is read

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def pieces(self) -> Iterator[HostArray]:
        yield from pieces(self.read()) if self.parts is None else self.parts()

    def fill(self, part: Part) -> None:
        """Read one box."""
        for job in jobs_of(self, [part]):
            job.run()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        return np.array(self.read(), dtype, copy=copy)


class SharedFile(Protocol):
    """A file of several arrays that is read as a whole."""

    def load(self, numbers: Sequence[int]) -> Sequence[HostArray]: ...


@attrs.frozen(eq=False)
class SharedArray(LazyArray):
    """One of the arrays of a shared file: whoever wants several asks the file for all of them at once."""

    file: SharedFile = attrs.field(kw_only=True)
    number: int = attrs.field(kw_only=True)

    @classmethod
    def of(cls, file: SharedFile, number: int, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> "SharedArray":
        return cls(shape, dtype, lambda: file.load([number])[0], file=file, number=number)


@attrs.frozen(eq=False)
class MaybeScalar(LazyArray):
    """An array of no axes that may have been a Python value; the schema knows."""


@attrs.frozen(eq=False)
class StoredScalar(MaybeScalar):
    """A Python number that is stored as an array of no axes."""


def viewed(array: LazyArray, dtype: "np.dtype[Any]") -> LazyArray:
    """The array with its bits taken for another dtype of the same size."""
    below = array.jobs

    def jobs(wanted: Sequence[Part]) -> Iterator[Job]:
        assert below is not None
        return below([Part(part.start, part.memory.view(array.dtype)) for part in wanted])

    def parts() -> Iterator[HostArray]:
        return (piece.view(dtype) for piece in array.pieces())

    return LazyArray(
        array.shape,
        dtype,
        lambda: array.read().view(dtype),
        None if array.parts is None else parts,
        None if below is None else jobs,
        array.checked_whole,
    )


def box_by_box(fill: Callable[[Part], None]) -> Callable[[Sequence[Part]], Iterator[Job]]:
    """The jobs of an array that is read one box at a time."""
    return lambda wanted: (Job(partial(fill, part), part.memory.nbytes) for part in wanted)


def jobs_of(value: Any, wanted: Sequence[Part]) -> Iterator[Job]:
    """What fills boxes of any array; of one that has no jobs, one that reads all of it."""
    if isinstance(value, LazyArray) and value.jobs is not None:
        yield from value.jobs(wanted)
    else:
        yield Job(partial(copy_boxes, value, wanted), value.nbytes)


def copy_boxes(value: Any, wanted: Sequence[Part]) -> None:
    """Fill boxes from all of an array."""
    whole = host(value)
    for part in wanted:
        part.memory[...] = whole[part.box]


def host(value: Any) -> HostArray:
    """An array in host memory."""
    return value.read() if isinstance(value, LazyArray) else np.asarray(value)


def pieces_of(value: Any) -> Iterator[HostArray]:
    """The elements in C order, flat, a few bytes at a time where the source allows it."""
    return value.pieces() if isinstance(value, LazyArray) else pieces(np.asarray(value))


def in_parts(shape: tuple[int, ...], dtype: "np.dtype[Any]", parts: Callable[[], Iterator[HostArray]]) -> LazyArray:
    """A lazy array of which only the parts are stored."""

    def read() -> HostArray:
        whole = np.empty(shape, dtype)
        flat, at = whole.reshape(-1), 0
        for part in parts():
            flat[at : at + part.size] = part
            at += part.size
        if at != whole.size:
            raise CorruptCheckpointError(f"expected {whole.size} elements of {dtype}{list(shape)}, got {at}")
        return whole

    return LazyArray(shape, dtype, read, parts)


def chunk_of(shape: Sequence[int], itemsize: int, limit: int) -> list[int]:
    """As many whole rows as fit into so many bytes; of larger rows one at a time, in parts."""
    chunk = []
    inner = math.prod(shape) * itemsize
    for size in shape:
        inner //= max(size, 1)
        chunk.append(max(1, min(size, limit // max(inner, 1))))
    return chunk


def bands(shape: Sequence[int], chunks: Sequence[int]) -> Iterator[tuple[Start, tuple[int, ...]]]:
    """Boxes (first element, shape) of whole chunks, as few as can be, that cover an array in C order."""
    if not shape:
        yield (), ()
        return
    rows = max(1, chunks[0])
    if len(shape) > 1 and rows == 1:
        for index in range(shape[0]):
            for start, box in bands(shape[1:], chunks[1:]):
                yield (index, *start), (1, *box)
        return
    for first in range(0, shape[0], rows):
        yield (first, *(0 for _ in shape[1:])), (min(rows, shape[0] - first), *shape[1:])


def by_bands(array: LazyArray, chunks: Sequence[int]) -> Iterator[tuple[Start, HostArray]]:
    """An array box by box, each of whole chunks, without ever holding more than these."""
    given = array.pieces()
    piece: HostArray = np.empty(0, array.dtype)
    for start, box in bands(array.shape, chunks):
        size = math.prod(box)
        piece = next(given) if not piece.size and size else piece
        if piece.size >= size:
            yield start, piece[:size].reshape(box)
            piece = piece[size:]
            continue
        whole, at = aligned((size,), array.dtype), 0
        while at < size:
            piece = piece if piece.size else next(given)
            count = min(size - at, piece.size)
            whole[at : at + count] = piece[:count]
            piece, at = piece[count:], at + count
        yield start, whole.reshape(box)
    for _ in given:  # what watches the pieces learns that this was the last
        pass


def read_by_bands(
    shape: tuple[int, ...],
    dtype: "np.dtype[Any]",
    chunks: Sequence[int],
    begin: Callable[[Start, HostArray], Callable[[], object]],
) -> Iterator[HostArray]:
    """The parts of a stored array. `begin` starts to fill memory from an element on; what it gives waits for the end."""
    ahead: deque[tuple[HostArray, Callable[[], object]]] = deque()
    for start, box in bands(shape, chunks):
        memory = aligned(box, dtype)
        ahead.append((memory, begin(start, memory)))
        most = 1 if memory.nbytes <= _AHEAD else 0
        while len(ahead) > most:
            done, wait = ahead.popleft()
            wait()
            yield done.reshape(-1)
    for done, wait in ahead:
        wait()
        yield done.reshape(-1)


def pieces(array: HostArray) -> Iterator[HostArray]:
    """The elements of an array in C order, flat, a few bytes at a time; what a map of a file read in is given back."""
    size = max(1, PIECE_BYTES // max(1, array.itemsize))
    if not array.flags.c_contiguous:
        yield from _copied(array, size)
        release(array)
        return
    flat = array.reshape(-1)
    for start in range(0, flat.size, size):
        yield flat[start : start + size]
        release(flat[start : start + size])


def as_bytes(piece: HostArray) -> Any:
    """What hashes and streams take; Any, since numpy's stubs do not say for Python 3.11 that arrays are buffers."""
    return np.ascontiguousarray(piece).view(np.uint8)


def release(array: HostArray) -> None:
    """Let go of the pages of a mapped file under an array, and shortly before: what passes over a file shall not pile it up.

    Nothing is lost: whoever looks there again reads the page again.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    base = base.obj if isinstance(base, memoryview) else base
    if not isinstance(base, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED") or not memoryview(base).readonly:
        return
    origin = np.frombuffer(base, np.uint8).ctypes.data
    start, stop = (edge - origin for edge in np.lib.array_utils.byte_bounds(array))
    if start >> 20 != stop >> 20:  # a call for each of many small arrays would cost more than it brings
        start = max(0, start - _LAG) // mmap.PAGESIZE * mmap.PAGESIZE
        base.madvise(mmap.MADV_DONTNEED, start, stop // mmap.PAGESIZE * mmap.PAGESIZE - start)


def _copied(array: HostArray, size: int) -> Iterator[HostArray]:
    """Elements of an array that is not contiguous, so that it is neither empty nor without axes."""
    row = array[0].size
    if row > size:
        for one in array:
            yield from [one.reshape(-1)] if one.ndim == 1 else _copied(one, size)
        return
    for start in range(0, len(array), size // row):
        yield np.ascontiguousarray(array[start : start + size // row]).reshape(-1)


def overlap(start: Start, size: Start, part: Part) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Where a box and a part meet: as a region of the box, and as one of the part's memory."""
    of_box, of_part = [], []
    for first, length, begin, end in zip(start, size, part.start, part.stop, strict=True):
        low, high = max(first, begin), min(first + length, end)
        if low >= high:
            return None
        of_box.append(slice(low - first, high - first))
        of_part.append(slice(low - begin, high - begin))
    return tuple(of_box), tuple(of_part)


def covers(shape: Sequence[int], parts: Sequence[Part]) -> bool:
    """Whether parts, which may overlap, are together all of an array."""
    ends = [
        sorted({0, size, *(end for part in parts for end in (part.start[axis], part.stop[axis]))})
        for axis, size in enumerate(shape)
    ]
    seen = np.zeros([len(one) - 1 for one in ends], bool)  # a cell for each box that no part's edge goes through
    for part in parts:
        cells = zip(ends, part.start, part.stop, strict=True)
        seen[tuple(slice(bisect_left(one, start), bisect_left(one, stop)) for one, start, stop in cells)] = True
    return bool(seen.all())
