"""System calls that Python has no functions for. They make things quicker and nothing else: where there is none, nothing happens."""

import ctypes
import mmap
from typing import Any, Final

HUGE_PAGE: Final = 2**21
_START_WRITING: Final = 2  # SYNC_FILE_RANGE_WRITE


def use_huge_pages(address: int, size: int) -> None:
    """Let new memory be touched in huge pages: in small ones that takes longer than to fill it."""
    start = -(-address // HUGE_PAGE) * HUGE_PAGE
    stop = (address + size) // HUGE_PAGE * HUGE_PAGE
    if _madvise is not None and hasattr(mmap, "MADV_HUGEPAGE") and start < stop:
        _madvise(start, stop - start, mmap.MADV_HUGEPAGE)


def start_writing(descriptor: int, start: int, size: int) -> None:
    """Let the disk begin with what was written to a file, so that a later fsync has less to wait for. Size 0: all of it."""
    if _sync_file_range is not None:
        _sync_file_range(descriptor, start, size, _START_WRITING)


def give_back_memory() -> None:
    """Let malloc return what it keeps of memory that was let go."""
    if _malloc_trim is not None:
        _malloc_trim(0)


def _function(name: str, *arguments: Any) -> Any:
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function.argtypes = arguments
    return function


_madvise: Final = _function("madvise", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_sync_file_range: Final = _function("sync_file_range", ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_malloc_trim: Final = _function("malloc_trim", ctypes.c_size_t)
