"""The files of a save under way: few enough to bound memory, each synced by a thread of ours as soon as it is written.

TensorStore would sync one after the other in the few threads that also write; synced here, the disk is never idle.
"""

import os
from functools import partial
from threading import Condition
from typing import Any, Final

from treaty.runtime._errors import storing
from treaty.runtime._process.uninterrupted import go_on
from treaty.runtime._process.workers import Workers
from treaty.runtime.formats.directory.places import Place
from treaty.runtime.formats.directory.remote import wait_for

IN_FLIGHT: Final = 2**27  # bytes given to TensorStore and not yet written; most are references to the source
THREADS: Final = 8


class WriteQueue:
    """A context manager; when it ends well, all files, and the directories they are in, last through a power cut."""

    def __init__(self, place: Place, data: str, limit: int = IN_FLIGHT) -> None:
        self._limit = limit
        self._place = place
        self._data = data
        self._folders: set[str] = set()
        self._bytes = 0
        self._changed = Condition()
        self._workers = Workers(THREADS, "treaty-sync", always=True)  # no write is under way when a save has failed

    def __enter__(self) -> "WriteQueue":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._workers.error = error or self._workers.error
        with self._workers:
            if self._workers.error is None:
                self._workers.wait()
                for folder in self._folders - {""}:  # the commit syncs the one above
                    self._workers.add(partial(self._sync, folder, folder))

    def add(self, future: Any, name: str, size: int, what: str) -> None:
        """Take over the write of a file; waits while too much is under way."""
        with self._changed:
            self._changed.wait_for(lambda: not self._bytes or self._bytes + size <= self._limit)
            self._bytes += size
        self._folders.add(os.path.dirname(name))
        self._workers.add(partial(self._finish, future, name, size, what))
        if self._workers.error is not None:
            raise self._workers.error
        go_on()

    def _finish(self, future: Any, name: str, size: int, what: str) -> None:
        try:
            wait_for(future, f"write {what}")
        finally:
            with self._changed:
                self._bytes -= size
                self._changed.notify_all()
        if self._workers.error is None:
            self._sync(name, what)

    def _sync(self, name: str, what: str) -> None:
        with storing(f"write {what} in", self._place.where):
            self._place.sync(f"{self._data}/{name}")
