"""Treaty's own directories, as a format."""

import os
import re
from contextlib import ExitStack
from pathlib import Path

from treaty.runtime._storage.overtaken import Known
from treaty.runtime._storage.paths import path_or_url
from treaty.runtime.formats.directory.manifest import DATA, NAME, OWN
from treaty.runtime.formats.directory.places import place_of
from treaty.runtime.formats.shared.format import Format, Owns, later

_HERE = "treaty.runtime.formats.directory"


def _is_at(path: str) -> bool:
    """A manifest, or the data of a save that was never finished."""
    if path_or_url(path)[1] or os.path.isfile(os.path.join(path, NAME)):
        return True
    return os.path.isdir(path) and any(DATA.match(name) for name in os.listdir(path))


def _look(path: str, held: ExitStack) -> Known:
    """The path is looked up, too: it may be a link that leads to another checkpoint by now."""
    place = place_of(path)
    content = place.manifest()
    return Known(content, seen=(place, content))  # every byte is checked against it: what was read is of one checkpoint


def _owns(path: Path) -> list[Owns]:
    return [lambda name: re.fullmatch(OWN, name) is not None]


def _remove(path: str) -> bool:
    """What is in an object store; a directory is removed as those of all formats are."""
    if not path_or_url(path)[1]:
        return False
    from treaty.runtime.formats.directory.remote import Remote

    Remote(path).remove()
    return True


FORMAT = Format(
    name="treaty",
    suffixes=(),
    is_at=_is_at,
    look=_look,
    open=later(f"{_HERE}.source:open_source"),
    write=later(f"{_HERE}.save:write_tree"),
    keeps_schema=True,
    takes=frozenset({"metadata", "timeout"}),
    shared=True,
    urls=True,
    owns=_owns,
    write_later=later(f"{_HERE}.save:write_later"),
    inspect=later(f"{_HERE}.inspect:inspect_known"),
    verify=later(f"{_HERE}.verify:verify_known"),
    remove=_remove,
)
