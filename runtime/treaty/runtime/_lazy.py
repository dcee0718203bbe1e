"""Arrays that stay where they are stored until someone asks for them, whole or piece by piece."""

import mmap
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import attrs
import numpy as np

HostArray: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

PIECE_BYTES: Final = 2**23  # large enough for a disk, small enough to be held a few times over


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
    release = _releaser(array)
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
        for start in range(0, flat.size, size):
            yield flat[start : start + size]
            release(flat[start : start + size])
        return
    yield from _copied(array, size)
    release(array)


def _copied(array: HostArray, size: int) -> Iterator[HostArray]:
    """Elements of an array that is not contiguous, so that it is neither empty nor without axes."""
    row = array[0].size
    if row > size:
        for one in array:
            yield from [one.reshape(-1)] if one.ndim == 1 else _copied(one, size)
        return
    for start in range(0, len(array), size // row):
        yield np.ascontiguousarray(array[start : start + size // row]).reshape(-1)


def _releaser(array: HostArray) -> Callable[[HostArray], None]:
    """Lets go of pages that were read from a mapped file, so that a pass over it does not pile it up in memory."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    base = base.obj if isinstance(base, memoryview) else base
    if not isinstance(base, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        return lambda _: None
    origin = np.frombuffer(base, np.uint8).ctypes.data

    def release(read: HostArray) -> None:
        start, stop = (
            (edge - origin) // mmap.PAGESIZE * mmap.PAGESIZE for edge in np.lib.array_utils.byte_bounds(read)
        )
        if start < stop:
            base.madvise(mmap.MADV_DONTNEED, start, stop - start)

    return release
