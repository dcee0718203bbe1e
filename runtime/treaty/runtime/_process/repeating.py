"""Work that is done again and again, by a thread of its own."""

import atexit
import os
import threading
from collections.abc import Callable

_running: "set[Repeating]" = set()


class Repeating:
    """Work that is done every so many seconds until it is ended, at the latest when the interpreter exits; not in forks."""

    def __init__(self, name: str, work: Callable[[], None], seconds: float) -> None:
        self._work = work
        self._seconds = seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        _running.add(self)

    def end(self) -> None:
        """Return when nothing of it is under way."""
        _running.discard(self)
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self._work()


@atexit.register
def _end_all() -> None:
    """A daemon that comes back from a store into an interpreter that is gone would end the process its own way."""
    for one in list(_running):
        one.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)
