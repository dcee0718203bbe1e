"""Directories that last through a power cut, and what is in them. Nothing here needs numpy."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from treaty.runtime._storage.paths import is_stray


def sync_directory(path: Path) -> None:
    """Make the names in a directory, or the bytes of a file, last through a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some file systems sync no directories, and say so
        if error.errno != errno.EINVAL or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """A directory and its parents, each fsynced where it was entered."""
    for folder in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        folder.mkdir(exist_ok=True)
        sync_directory(folder.parent)


def sizes_below(folder: "str | os.PathLike[str]") -> "dict[str, int | None]":
    """Every file below a directory, by name, and its size."""
    found: dict[str, int | None] = {}
    for name, entry in files_below(folder):
        with suppress(OSError):  # removed by a save that was faster, or a link that leads nowhere
            found[name] = entry.stat().st_size
    return found


def files_below(folder: "str | os.PathLike[str]") -> "Iterator[tuple[str, os.DirEntry[str]]]":
    """Every file below a directory, by name; what file managers and file systems put there is left out."""
    pending = [(os.fspath(folder), "")]
    while pending:
        place, prefix = pending.pop()
        try:
            entries = list(os.scandir(place))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append((entry.path, f"{prefix}{entry.name}/"))
            elif not is_stray(entry.name):
                yield prefix + entry.name, entry
