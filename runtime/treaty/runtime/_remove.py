"""Removing a checkpoint so that at no moment a part of one can be taken for one.

A directory is renamed first, and deleted under its new name; of several files, the one that makes them a checkpoint goes
first. Whoever is killed meanwhile calls `remove` again, which finishes.
"""

import os
import re
import secrets
import shutil
from pathlib import Path
from typing import Final

from treaty.runtime._errors import InvalidArgumentError, MissingCheckpointError, cannot, storing
from treaty.runtime._files import sync_directory
from treaty.runtime._paths import AnyPath, path_or_url
from treaty.runtime._sharding.shard_files import derive_base_prefix_from_path
from treaty.runtime._uninterrupted import uninterrupted
from treaty.runtime.directory._manifest import DATA
from treaty.runtime.directory._places import Local
from treaty.runtime.formats import _table as formats
from treaty.runtime.formats._belonging import strangers
from treaty.runtime.formats._safetensors_place import under_prefix

_SAFETENSORS: Final = (".safetensors", ".safetensors.index.json")


@uninterrupted
def remove(path: AnyPath) -> None:
    """Delete the checkpoint at `path`, of any format; what is no checkpoint, or holds other files, is refused.

    One process of a program calls it. A save under way to a directory is an error. What a save or a `remove` that was
    killed has left is deleted too; a link is refused, since it may be meant itself or what it leads to.
    """
    text, is_url = path_or_url(path)
    if is_url:
        from treaty.runtime.directory._remote import Remote

        Remote(text).remove()
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
            _delete(one)


def _remove(place: Path, text: str) -> None:
    if place.is_dir():
        _remove_directory(place, text)
    elif place.name.endswith(_SAFETENSORS):
        _remove_safetensors(place, text)
    else:
        formats.recognise(place)
        _unlink([place])


def _remove_directory(place: Path, text: str) -> None:
    with Local(place).held():
        _require_own(place, text)
        aside = place.with_name(f".{place.name[:40]}.{secrets.token_hex(6)}.removed")
        os.rename(place, aside)
        try:
            _require_own(aside, text)  # what came meanwhile goes back with the rest
        except BaseException:
            os.rename(aside, place)
            raise
        sync_directory(place.parent)
        _delete(aside)


def _require_own(folder: Path, text: str) -> None:
    try:
        formats.recognise(folder)
    except MissingCheckpointError:
        if not any(DATA.match(name) for name in os.listdir(folder)):  # what a killed save left may go, too
            raise MissingCheckpointError(f"expected a checkpoint, got a directory without one at {text}") from None
    others = strangers(folder)
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise InvalidArgumentError(
            f"expected a directory with nothing but one checkpoint, got {', '.join(others[:3])}{more} in {text}; "
            "move or remove what is there yourself"
        )


def _remove_safetensors(place: Path, text: str) -> None:
    """A file or its shards, with the index first: without it they are no checkpoint."""
    prefix = derive_base_prefix_from_path(str(place))
    if place.name.endswith(".safetensors") and str(place) != f"{prefix}.safetensors":
        raise InvalidArgumentError(f"expected a checkpoint, got a shard of one at {text}; give the path of the index")
    found = under_prefix(prefix) if place.parent.is_dir() else []
    if not found:
        raise MissingCheckpointError(f"expected a checkpoint, got nothing at {text}")
    _unlink(sorted(found, key=lambda one: not one.name.endswith(".json")))


def _unlink(files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
        sync_directory(file.parent)


def _left_by_others(place: Path) -> list[Path]:
    """Directories that a `remove` of this name had renamed when it was killed."""
    ours = re.compile(rf"\.{re.escape(place.name[:40])}\.[0-9a-f]{{12}}\.removed")
    try:
        names = os.listdir(place.parent)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [place.with_name(name) for name in names if ours.fullmatch(name)]


def _delete(aside: Path) -> None:
    def tell(_: object, path: str, error: tuple[type[BaseException], BaseException, object]) -> None:
        if isinstance(error[1], OSError) and not isinstance(error[1], FileNotFoundError):
            raise cannot("remove", path, error[1]) from error[1]

    shutil.rmtree(aside, onerror=tell)
    sync_directory(aside.parent)
