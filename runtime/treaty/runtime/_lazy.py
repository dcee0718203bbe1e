"""Arrays that stay where they are stored until someone asks for them, whole or piece by piece."""

import mmap
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import attrs
import numpy as np

HostArray: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

PIECE_BYTES: Final = 2**23  # large enough for a disk, small enough to be held a few times over
_LAG: Final = 2**25  # bytes that whoever passes over a file may still have to write


@attrs.frozen(eq=False)
class LazyArray:
    """The shape and dtype of a stored array, and how to get its contents onto the host.

    `parts` gives its elements in C order as flat arrays, for sources that need not be in memory as a whole.
    """

    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    read: Callable[[], HostArray]
    parts: Callable[[], Iterator[HostArray]] | None = None

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def pieces(self) -> Iterator[HostArray]:
        yield from pieces(self.read()) if self.parts is None else self.parts()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        found = self.read()
        return found if dtype is None else found.astype(dtype)


def in_parts(shape: tuple[int, ...], dtype: "np.dtype[Any]", parts: Callable[[], Iterator[HostArray]]) -> LazyArray:
    """A lazy array of which only the parts are stored."""

    def read() -> HostArray:
        whole = np.empty(shape, dtype)
        flat, at = whole.reshape(-1), 0
        for part in parts():
            flat[at : at + part.size] = part
            at += part.size
        return whole

    return LazyArray(shape, dtype, read, parts)


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


def release(array: HostArray) -> None:
    """Let go of the pages of a mapped file under an array, and shortly before: what passes over a file shall not pile it up.

    Nothing is lost: whoever looks there again reads the page again.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    base = base.obj if isinstance(base, memoryview) else base
    if not isinstance(base, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
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
