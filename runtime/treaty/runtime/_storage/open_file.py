"""A file that is read at any place by any thread, and stays the same file when another takes its name."""

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from treaty.runtime._errors import CorruptCheckpointError, storing
from treaty.runtime._storage.files import open_file
from treaty.runtime._storage.memory import HostArray


class OpenFile:
    """Closed when nobody needs it any more: lazy arrays do, as long as they live."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        with storing("read", path):
            self._file = open_file(path)
            self._descriptor = self._file.fileno()
            self.size = os.fstat(self._descriptor).st_size

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def read(self, start: int, size: int) -> bytes:
        """Fewer bytes than asked for at the end of the file."""
        with storing("read", self._path):
            return os.pread(self._descriptor, max(0, min(size, self.size - start)), start)

    def fill(self, memory: HostArray, start: int, what: str) -> None:
        """All of the memory, or the file has become shorter."""
        view = memory.data
        while view:
            with storing("read", self._path):
                count = os.preadv(self._descriptor, [view], start)
            if not count:
                raise CorruptCheckpointError(f"expected {len(view)} bytes more, got the end of the file at {what}")
            view, start = view[count:], start + count

    @contextmanager
    def stream(self) -> Iterator[io.BufferedReader]:
        """For those who read from one place on; each has a place of its own.

        That the disk failed is raised here, too: zipfile takes it for the end of a file that is no archive.
        """
        stream = _Stream(self)
        try:
            yield io.BufferedReader(stream)
        finally:
            if stream.failure is not None:
                raise stream.failure


class _Stream(io.RawIOBase):
    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._at = 0
        self.failure: OSError | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size}[whence]
        if self._at < 0 and whence == os.SEEK_END:
            raise OSError(errno.EINVAL, "the file is shorter")  # which zipfile, that looks for records, expects
        if self._at < 0:
            raise ValueError(f"expected a place in a file, got {self._at}")
        return self._at

    def readinto(self, buffer: Any) -> int:
        try:
            found = self._file.read(self._at, len(buffer))
        except OSError as error:
            self.failure = error
            raise
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)
