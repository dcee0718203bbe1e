"""An open item of Orbax."""

import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from treaty.runtime._errors import IncompleteCheckpointError
from treaty.runtime._restore.source import Source
from treaty.runtime._storage.overtaken import Known, held_directory, mark, still
from treaty.runtime._storage.paths import local_path
from treaty.runtime.formats.orbax.aggregate import AGGREGATE
from treaty.runtime.formats.orbax.database import missing_file
from treaty.runtime.formats.orbax.find import METADATA, OCDBT, find_item, step_of
from treaty.runtime.formats.orbax.leaves import leaves_of
from treaty.runtime.formats.orbax.read import read_item
from treaty.runtime.formats.orbax.write_item import write_item
from treaty.runtime.formats.shared.format import Writing
from treaty.schema import Schema, TreatyError

_OF_AN_ITEM: Final = (METADATA, AGGREGATE, OCDBT)  # which is all of it that is ever replaced


class OrbaxSource(Source):
    """Orbax leaves open whether an item was a tuple or a list, a scalar a Python number or an array, None an empty node."""

    is_exact = False

    def __init__(self, path: str, known: Known | None = None, step: int | None = None, item: str | None = None) -> None:
        place = Path(local_path(path))
        self._item = find_item(place, step, item)
        super().__init__(path if self._item == place else str(self._item))  # of a run or a step, what was taken of it
        self.step = step_of(place, self._item)

    def whole(self, schema: Schema | None) -> Any:
        return read_item(self._item)

    def require_files(self) -> None:
        """That the files which the arrays are in are there, in full length; no array is read."""
        lost = missing_file(self._item)
        if lost is not None:
            raise IncompleteCheckpointError(
                f"expected the whole file {lost}, got nothing or only part of it in {self._item}"
            )


def known_orbax(path: str, held: ExitStack, step: int | None = None, item: str | None = None) -> Known:
    """The item's directory itself, and what is written last into it."""
    with suppress(TreatyError, OSError):
        found = find_item(Path(path), step, item)
        return still(lambda: (str(found), held_directory(found, held), [mark(found / name) for name in _OF_AN_ITEM]))
    return Known(held_directory(path, held))


def write_tree(path: str, tree: Any, writing: Writing) -> None:
    write_item(Path(os.fspath(path)), leaves_of(tree, writing.schema))
