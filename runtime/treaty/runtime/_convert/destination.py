"""Where a conversion writes: what may be replaced there, and how the new checkpoint takes its place without losing anything."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._storage.directories import sync_directory
from treaty.runtime._storage.paths import local_path
from treaty.runtime._storage.permissions import keep_permissions
from treaty.runtime._storage.system import exchange
from treaty.runtime._storage.workspace import KEPT, Workspace, locked_directory
from treaty.runtime.formats.ownership import others_shown, strangers
from treaty.runtime.formats.shared.format import Format

PathLike = str | os.PathLike[str]


def destination_at(destination: PathLike) -> Path:
    """The destination as the system understands it: links above it are followed, one at its own place is not."""
    text = local_path(destination)
    head, name = os.path.split(text.rstrip("/") or "/")
    place = Path(os.path.realpath(text)) if name in ("", ".", "..") else Path(os.path.realpath(head or "."), name)
    if not place.parent.is_dir():
        raise InvalidArgumentError(f"expected a directory to write into, got none at {place.parent}")
    return place


def check_place(place: Path, to: Format, sources: Sequence[Path], replace: bool) -> None:
    """Nothing is at the place, or, with `replace`, only an older checkpoint; and the source is elsewhere."""
    taken, is_file = to.replaces(place), bool(to.suffixes)
    if taken and not replace:
        raise InvalidArgumentError(f"expected a free place, got something at {taken[0]}; --force replaces it")
    for source in sources:
        for one in taken or [place]:
            check_apart(source, one)
    for one in taken:
        is_folder = one.is_dir() and not one.is_symlink()
        if is_file and is_folder:
            raise InvalidArgumentError(f"expected a file to replace, got a directory at {one}")
        if not is_file and not is_folder and not one.is_symlink():
            raise InvalidArgumentError(f"expected a checkpoint directory to replace, got a file at {one}")
        if is_folder:
            check_owned(one, one)


def check_owned(found: Path, place: Path) -> None:
    """Every file of a directory that is to be replaced is a checkpoint's."""
    others = strangers(found)
    if others:
        raise InvalidArgumentError(
            f"expected a directory with nothing but one checkpoint to replace, got {others_shown(others)} "
            f"in {place}; move or remove what is there yourself"
        )


def take_place(space: Workspace, written: Path, place: Path, to: Format, replace: bool) -> None:
    """Move what was written into its place. What came there during the conversion is not touched."""
    taken = to.replaces(place)
    files = [written.parent / name for name in os.listdir(written.parent)]
    for file in files if taken and not taken[0].is_symlink() else ():
        keep_permissions(taken[0], file)
    if not replace:
        _check_free(to.replaces(place))
    if to.move is not None:
        to.move(place, files, space.is_alone)
        return
    if not replace:
        _move_to_free(written, place)
    elif written.is_dir() and os.path.lexists(place):
        with locked_directory(place):
            _exchange(space.folder / KEPT, written, place)
    else:
        os.replace(written, place)
    sync_directory(place.parent)


def _move_to_free(written: Path, place: Path) -> None:
    """A directory replaces at most an empty one; of a file, a second name is the move that replaces nothing."""
    if not written.is_dir() and hasattr(os, "link"):
        try:
            os.link(written, place)
            return
        except FileExistsError:
            _check_free([place])
        except OSError:
            pass  # a file system without such names
    os.rename(written, place)


def _exchange(aside: Path, written: Path, place: Path) -> None:
    """At once, or, where the file system cannot, in two steps, of which the first is undone if the second is never made."""
    for folder in (aside.parent, place.parent):  # where the old one will be must last through a power cut, too
        sync_directory(folder)
    if exchange(written, place):
        try:
            if not written.is_symlink():
                check_owned(written, place)
        except BaseException:
            exchange(written, place)
            raise
        return
    os.rename(place, aside)
    try:
        if not aside.is_symlink():
            check_owned(aside, place)
        os.rename(written, place)
    except BaseException:
        if not os.path.lexists(place):
            os.rename(aside, place)
        raise


def _check_free(taken: Iterable[Path]) -> None:
    for one in taken:
        raise InvalidArgumentError(f"expected a free place, got something that came to {one} during the conversion")


def check_apart(source: Path, place: Path) -> None:
    here, there = Path(os.path.realpath(source)), Path(os.path.realpath(place))
    own = Path(os.path.realpath(source.parent), source.name)  # a link, which would be removed with its folder
    if here == there or (source.exists() and place.exists() and os.path.samefile(source, place)):
        raise InvalidArgumentError(f"expected another destination than the source, got {place} for both")
    if any(one.is_relative_to(there) for one in (here, own)):
        raise InvalidArgumentError(f"expected a destination apart from the source, got {place}, which holds {source}")
    if source.is_dir() and place.parent.resolve().joinpath(place.name).is_relative_to(here):
        raise InvalidArgumentError(f"expected a destination apart from the source, got {place}, which is in {source}")
    for link in _links_below(source):
        if Path(os.path.realpath(link)).is_relative_to(there):
            raise InvalidArgumentError(
                f"expected a destination apart from the source, got {place}, to which {link} leads"
            )


def _links_below(source: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(source):
        yield from (path for name in (*folders, *names) if os.path.islink(path := os.path.join(folder, name)))
