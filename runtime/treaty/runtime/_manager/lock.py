"""One manager writes to a directory at a time. The lock is the system's, and ends with its process."""

import json
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from treaty.runtime._errors import InvalidArgumentError, storing
from treaty.runtime._process.forks import close_lock, open_lock, try_lock
from treaty.runtime._process.uninterrupted import uninterrupted
from treaty.runtime._process.watching import log
from treaty.runtime._storage.directories import make_directory
from treaty.runtime.formats.directory.steps import HOME
from treaty.schema import TreatyError

_NAME: Final = "lock"


def who() -> dict[str, Any]:
    """This process, as others may be told of it."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"process": os.getpid(), "host": socket.gethostname(), "since": since}


def taken(where: str, content: bytes) -> TreatyError:
    """The error of one who comes while another writes."""
    try:
        said = json.loads(content)
        by = f" of process {said['process']} on {said['host']}, since {said['since']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        by = ""
    return InvalidArgumentError(
        f"expected {where} to be free, got a manager that writes to it{by}; close that one, or pass read_only=True to look only"
    )


class DirectoryLock:
    """The lock of a local directory; held from when it is made."""

    def __init__(self, folder: Path, where: str) -> None:
        self._path = folder / HOME / _NAME
        self._where = where
        self._descriptor = self._take()

    @uninterrupted(undo=close_lock)
    def _take(self) -> int:
        with storing("write", self._where):
            make_directory(self._path.parent)
            descriptor = open_lock(self._path, os.O_RDWR | os.O_CREAT)
            try:
                is_locked = try_lock(descriptor)
                if is_locked is False:
                    raise taken(self._where, self._path.read_bytes())
                if is_locked is None:
                    log.warning("%s has no locks: that no other manager writes there is not known", self._where)
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(who()).encode(), 0)
            except BaseException:
                close_lock(descriptor)
                raise
        return descriptor

    def check(self) -> None:
        """That the directory is still the one that was locked."""
        same = False
        with storing("read", self._where), suppress(FileNotFoundError, NotADirectoryError):
            same = os.path.samestat(os.fstat(self._descriptor), os.stat(self._path))
        if not same:
            raise TreatyError(
                f"expected {self._where} as it was, got another directory or none: it was removed while a manager wrote to it; "
                "make a new manager"
            )

    @uninterrupted
    def release(self) -> None:
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        close_lock(self._descriptor)
