"""New host memory for arrays, in huge pages where malloc would hand out small ones.

That buys 2.5 times at 4 and 1.8 at 8 MiB an array (`python -m benchmarks fast_paths`); from 32 MiB on malloc maps memory itself, and
numpy asks for huge pages.
"""

import mmap
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from treaty.runtime._storage.system import HUGE_PAGE, use_huge_pages
from treaty.schema import TreatyError

_CAN_MAP: Final = hasattr(mmap, "MAP_PRIVATE")  # not on Windows
HostArray = np.ndarray[Any, np.dtype[Any]]

_MAPPED_BY_MALLOC: Final = 2**25  # bytes
_ALIGNMENT: Final = 64  # JAX takes host memory over without a copy where it is aligned like this


def aligned(shape: Sequence[int], dtype: "np.dtype[Any]") -> HostArray:
    """Uninitialised memory that JAX can take over on a CPU; each array's is given back with it."""
    size = dtype.itemsize
    for length in shape:
        size *= length
    try:
        memory = _mapped(size) if HUGE_PAGE <= size < _MAPPED_BY_MALLOC and _CAN_MAP else _allocated(size)
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
