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

    def __init__(self, place: Place, data: str, limit: int) -> None:
        super().__init__(limit)
        self._place = place
        self._data = data
        self._folders: set[str] = set()

    def write(self, future: Any, name: str, size: int, what: str) -> None:
        """Take over the write of a file."""
        self._folders.add(os.path.dirname(name))
        self.add(size, partial(wait_for, future, f"write {what}"), partial(self._sync, name, what))

    def last(self) -> list[Callable[[], None]]:
        return [
            partial(self._sync, folder, folder) for folder in self._folders - {""}
        ]  # the commit syncs the one above

    def _sync(self, name: str, what: str) -> None:
        with storing(f"write {what} in", self._place.where):
            self._place.sync(f"{self._data}/{name}")
