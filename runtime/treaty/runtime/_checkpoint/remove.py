"""Removing a checkpoint so that at no moment a part of one can be taken for one.

A directory is renamed first, and deleted under its new name; of several files, the one that makes them a checkpoint goes
first. Whoever is killed meanwhile calls `remove` again, which finishes.
"""

import os
import re
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from treaty.runtime._errors import InvalidArgumentError, MissingCheckpointError, cannot, storing
from treaty.runtime._process.uninterrupted import uninterrupted
from treaty.runtime._storage.directories import sync_directory
from treaty.runtime._storage.paths import AnyPath, path_or_url
from treaty.runtime._storage.workspace import locked_directory
from treaty.runtime.formats.ownership import others_shown, strangers
from treaty.runtime.formats.table import FORMATS, format_at, format_meant


@uninterrupted
def remove(path: AnyPath) -> None:
    """Delete the checkpoint at `path`, of any format; what is not a checkpoint, or holds other files, is refused.

    One process of a program calls it. A save under way to a directory is an error. What a save or a `remove` that was
    killed has left is deleted too; a link is refused, since it may be meant itself or what it leads to.
    """
    text, is_url = path_or_url(path)
    if is_url:
        _removed_by_format(text)
        return
    place = Path(os.path.realpath(os.path.dirname(text.rstrip("/")) or "."), os.path.basename(text.rstrip("/")))
    if place.is_symlink():
        raise InvalidArgumentError(
            f"expected a checkpoint, got a link to {os.readlink(place)} at {text}; remove either"
        )
    if text.endswith("/") and os.path.isfile(place):
        raise MissingCheckpointError(f"expected a directory, got a file at {text}")
    with storing("remove", text):
        left = _left_by_others(place)
        if not left or os.path.lexists(place):
            _remove(place, text)
        for one in left:
            delete_aside(one)


def _remove(place: Path, text: str) -> None:
    if _removed_by_format(str(place)):
        return
    if place.is_dir():
        _remove_directory(place, text)
    elif not os.path.lexists(place):
        raise MissingCheckpointError(f"expected a checkpoint, got nothing at {text}")
    else:
        place.unlink(missing_ok=True)
        sync_directory(place.parent)


def _removed_by_format(path: str) -> bool:
    """Whether the format that a path means, or that lies there, has removed it in its own way."""
    is_there = path_or_url(path)[1] or os.path.lexists(path)
    format = format_at(path) if is_there else format_meant(path)
    return format.remove is not None and format.remove(path)


def _remove_directory(place: Path, text: str) -> None:
    aside = set_aside(place, text)
    assert aside is not None
    delete_aside(aside)


def set_aside(place: Path, text: str, wanted: Callable[[], bool] = lambda: True) -> Path | None:
    """Take what makes a directory a checkpoint: its name. Asked while nobody writes there, `wanted` may still say no."""
    with locked_directory(place):
        if not wanted():
            return None
        _require_own(place, text)
        aside = place.with_name(f".{place.name[:40]}.{secrets.token_hex(6)}.removed")
        os.rename(place, aside)
        try:
            _require_own(aside, text)  # what came meanwhile goes back with the rest
        except BaseException:
            os.rename(aside, place)
            raise
        sync_directory(place.parent)
    return aside


def _require_own(folder: Path, text: str) -> None:
    if not any(format.is_at(str(folder)) for format in FORMATS.values()):
        raise MissingCheckpointError(f"expected a checkpoint, got a directory without one at {text}")
    others = strangers(folder)
    if others:
        raise InvalidArgumentError(
            f"expected a directory with nothing but one checkpoint, got {others_shown(others)} in {text}; "
            "move or remove what is there yourself"
        )


def _left_by_others(place: Path) -> list[Path]:
    """Directories that a `remove` of this name had renamed when it was killed."""
    try:
        names = os.listdir(place.parent)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [place.with_name(name) for name in names if name_before(name) == place.name[:40]]


def name_before(name: str) -> str | None:
    """Of a directory that was set aside, the name that it had, or how that began."""
    found = re.fullmatch(r"\.(.+)\.[0-9a-f]{12}\.removed", name, re.DOTALL)
    return None if found is None else found[1]


def delete_aside(aside: Path) -> None:
    """Delete what was set aside. Called again, it goes on where it was killed."""

    def tell(_: object, path: str, error: tuple[type[BaseException], BaseException, object]) -> None:
        if isinstance(error[1], OSError) and not isinstance(error[1], FileNotFoundError):
            raise cannot("remove", path, error[1]) from error[1]

    shutil.rmtree(aside, onerror=tell)
    sync_directory(aside.parent)
