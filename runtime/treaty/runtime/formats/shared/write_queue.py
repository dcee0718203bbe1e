"""Writes under way, few enough to bound memory: each is waited for by a thread of ours, which then hurries it to the disk.

TensorStore would sync one after the other in the few threads that also write; done here, the disk is never idle.
"""

from collections.abc import Callable
from functools import partial
from threading import Condition
from typing import Self

from treaty.runtime._process.uninterrupted import go_on
from treaty.runtime._process.workers import THREADS, Workers


class WriteQueue:
    """A context manager; when it ends well, all is written, and when it fails, no write is under way any more."""

    def __init__(self, limit: int, threads: int = THREADS) -> None:
        self._limit = limit
        self._bytes = 0
        self._changed = Condition()
        self._workers = Workers(threads, "treaty-sync", always=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._workers.error = error or self._workers.error
        with self._workers:
            if self._workers.error is None:
                self._workers.wait()
                for job in self.last():
                    self._workers.add(job)

    def last(self) -> list[Callable[[], None]]:
        """What is to be done when all is written."""
        return []

    def add(self, size: int, wait: Callable[[], object], then: Callable[[], None]) -> None:
        """Take over a write of `size` bytes: wait for its end, then do what follows. Blocks while too much is under way."""
        with self._changed:
            self._changed.wait_for(lambda: not self._bytes or self._bytes + size <= self._limit)
            self._bytes += size
        self._workers.add(partial(self._finish, size, wait, then))
        self.check()

    def check(self) -> None:
        """Nothing more is taken over after a failure, or when the call was interrupted."""
        if self._workers.error is not None:
            raise self._workers.error
        go_on()

    def _finish(self, size: int, wait: Callable[[], object], then: Callable[[], None]) -> None:
        try:
            wait()
        finally:
            with self._changed:
                self._bytes -= size
                self._changed.notify_all()
        if self._workers.error is None:
            then()
