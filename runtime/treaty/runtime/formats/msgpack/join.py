"""Buffers joined into one `bytes`, large results in huge pages: to touch new memory in small ones takes most of the time.

That makes 256 MiB 3 times as fast as `b"".join` (`python -m benchmarks fast_paths`), which joins all else.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from treaty.runtime._storage.system import use_huge_pages

_LARGE: Final = 2**24  # bytes; smaller results often get memory that was touched before
_MANY: Final = 4096  # pieces that are still quick to measure; of more, few are large


def join(pieces: Sequence[Any]) -> bytes:
    """As `b"".join`; what has a method `pieces` stands for the buffers that this gives."""
    try:
        size = sum(map(_length, pieces)) if len(pieces) <= _MANY else 0
        return b"".join(pieces) if size < _LARGE else _filled(pieces, size)
    except (TypeError, AttributeError):
        if not any(hasattr(piece, "pieces") for piece in pieces):
            raise
    return join([part for piece in pieces for part in (piece.pieces() if hasattr(piece, "pieces") else (piece,))])


def _length(piece: Any) -> int:
    return len(piece) if type(piece) is bytes else piece.nbytes


def _filled(pieces: Sequence[Any], size: int) -> bytes:
    """C code makes `bytes` in this way too: get them without contents, and fill them before anyone else sees them."""
    result: bytes = _new(None, size)
    start: int = _address(result)
    use_huge_pages(start, size)
    memory = np.frombuffer(memoryview((ctypes.c_char * size).from_address(start)), np.uint8)
    at = 0
    for piece in pieces:
        flat = np.frombuffer(piece, np.uint8) if type(piece) is bytes else piece.reshape(-1).view(np.uint8)
        memory[at : at + flat.size] = flat
        at += flat.size
    return result


_new: Final = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)
_address: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyBytes_AsString", ctypes.pythonapi))
