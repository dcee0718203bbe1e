"""How Treaty's own directories are recognised, and which files are theirs."""

import os
import re
from contextlib import ExitStack
from pathlib import Path

from treaty.runtime._storage.overtaken import Known
from treaty.runtime._storage.paths import path_or_url
from treaty.runtime.formats.directory.manifest import DATA, NAME, OWN
from treaty.runtime.formats.directory.places import place_of
from treaty.runtime.formats.directory.steps import HOME, newest_step
from treaty.runtime.formats.shared.format import Owns


def is_at(path: str) -> bool:
    """A manifest, the data of a save that was never finished, or a directory of steps."""
    if path_or_url(path)[1] or os.path.isfile(os.path.join(path, NAME)):
        return True
    if not os.path.isdir(path):
        return False
    if os.path.isdir(os.path.join(path, HOME)) or any(DATA.match(name) for name in os.listdir(path)):
        return True
    return newest_step(path) is not None


def look(path: str, held: ExitStack) -> Known:
    """The path is looked up, too: it may be a link that leads to another checkpoint by now."""
    place = place_of(path)
    content = place.manifest()
    if content is None and (step := newest_step(path)) is not None:
        place = place_of(step)
        content = place.manifest()
    return Known(content, seen=(place, content))  # every byte is checked against it: what was read is of one checkpoint


def owns(path: Path) -> list[Owns]:
    return [lambda name: re.fullmatch(OWN, name) is not None]


def remove(path: str) -> bool:
    """What is in an object store; a directory is removed as those of all formats are."""
    if not path_or_url(path)[1]:
        return False
    from treaty.runtime.formats.directory.remote import Remote

    Remote(path).remove()
    return True
