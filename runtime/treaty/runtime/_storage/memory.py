"""New host memory for large arrays."""

import mmap
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from treaty.runtime._storage.system import HUGE_PAGE, use_huge_pages
from treaty.schema import TreatyError

HostArray = np.ndarray[Any, np.dtype[Any]]

_ALIGNMENT: Final = 64  # JAX takes host memory over without a copy where it is aligned like this


def aligned(shape: Sequence[int], dtype: "np.dtype[Any]") -> HostArray:
    """Uninitialised memory that JAX can take over on a CPU; each array's is given back with it."""
    size = dtype.itemsize
    for length in shape:
        size *= length
    try:
        memory = _mapped(size) if size >= HUGE_PAGE and hasattr(mmap, "MAP_PRIVATE") else _allocated(size)
    except (MemoryError, OverflowError, OSError, ValueError) as error:
        raise TreatyError(f"expected memory for {dtype}{list(shape)}, got {error or 'none'}") from error
    return memory.view(dtype).reshape(tuple(shape))


def copied(array: HostArray) -> HostArray:
    """A copy in new memory, in C order."""
    memory = aligned(array.shape, array.dtype)
    np.copyto(memory, array)
    return memory


def _mapped(size: int) -> HostArray:
    memory = np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
    use_huge_pages(memory.ctypes.data, size)
    return memory


def _allocated(size: int) -> HostArray:
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    skip = -memory.ctypes.data % _ALIGNMENT
    return memory[skip : skip + size]
