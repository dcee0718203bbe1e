"""The files of a save under way, each synced as soon as it is written."""

import os
from collections.abc import Callable
from functools import partial
from typing import Final

from treaty.runtime._errors import storing
from treaty.runtime._process.workers import THREADS
from treaty.runtime.formats.directory.places import Local, Place
from treaty.runtime.formats.shared.write_queue import WriteQueue

UNDER_WAY: Final = 2**27  # bytes that threads were given and have not written yet; most are references to the source
UPLOADS: Final = 32  # files at once to an object store, as many as TensorStore sends: each waits for the store's answer


class FileQueue(WriteQueue):
    """When it ends well, all files, and the directories they are in, last through a power cut."""

    def __init__(self, place: Place, data: str, limit: int, advance: Callable[[int], None]) -> None:
        super().__init__(limit, THREADS if isinstance(place, Local) else UPLOADS)
        self._advance = advance
        self._place = place
        self._data = data
        self._folders: set[str] = set()

    def wait(self) -> None:
        """Until all that was taken over is done."""
        self._workers.wait()

    def add_file(self, work: Callable[[], None], name: str, size: int) -> None:
        """Take over a file that is there, and lasts, when a call, made by a thread of these, has returned."""
        self._folders.add(os.path.dirname(name))
        self.add(size, work, partial(self._advance, size))

    def add_done(self, name: str, size: int) -> None:
        """A file that is there; that it lasts is up to its directory."""
        self._folders.add(os.path.dirname(name))
        self._advance(size)
        self.check()

    def last(self) -> list[Callable[[], None]]:
        folders = self._folders - {""}  # which the commit syncs
        return [partial(self._sync, folder) for folder in folders]

    def _sync(self, folder: str) -> None:
        with storing(f"write {folder} in", self._place.where):
            self._place.sync(f"{self._data}/{folder}")
