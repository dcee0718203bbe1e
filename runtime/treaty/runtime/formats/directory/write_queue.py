"""The files of a save under way, each synced as soon as it is written."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from treaty.runtime._errors import storing
from treaty.runtime.formats.directory.places import Place
from treaty.runtime.formats.directory.remote import wait_for
from treaty.runtime.formats.shared.write_queue import WriteQueue

IN_FLIGHT: Final = 2**27  # bytes given to TensorStore and not yet written; most are references to the source


class FileQueue(WriteQueue):
    """When it ends well, all files, and the directories they are in, last through a power cut."""

    def __init__(self, place: Place, data: str, limit: int, advance: Callable[[int], None]) -> None:
        super().__init__(limit)
        self._advance = advance
        self._place = place
        self._data = data
        self._folders: set[str] = set()

    def write(self, future: Any, name: str, size: int, what: str) -> None:
        """Take over the write of a file."""
        self.do(partial(wait_for, future, f"write {what}"), name, size, what)

    def link(self, link: Callable[[], bool], begin: Callable[[], Any], name: str, size: int, what: str) -> None:
        """Let a file be linked to one that is there; where that cannot be, begin to write it, and wait for the end."""

        def linked_or_written() -> None:
            if not link():
                wait_for(begin(), f"write {what}")

        self.do(linked_or_written, name, size, what)

    def wait(self) -> None:
        """Until all that was taken over is done."""
        self._workers.wait()

    def do(self, wait: Callable[[], object], name: str, size: int, what: str) -> None:
        """Take over a file that is there when a call, made by a thread of these, has returned."""
        self._folders.add(os.path.dirname(name))
        self.add(size, wait, partial(self._written, name, size, what))

    def last(self) -> list[Callable[[], None]]:
        return [
            partial(self._sync, folder, folder) for folder in self._folders - {""}
        ]  # the commit syncs the one above

    def _written(self, name: str, size: int, what: str) -> None:
        self._sync(name, what)
        self._advance(size)

    def _sync(self, name: str, what: str) -> None:
        with storing(f"write {what} in", self._place.where):
            self._place.sync(f"{self._data}/{name}")
