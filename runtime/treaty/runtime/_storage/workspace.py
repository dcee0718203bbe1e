"""A folder beside a checkpoint in which the next one is made. One writer has it at a time, and what a dead one left goes."""

import errno
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from attrs import frozen

from treaty.runtime._process.forks import close_lock, open_lock, try_lock
from treaty.schema import TreatyError

KEPT: Final = "old"  # what was at the place, where two renames put another there
_LOCK: Final = "lock"


@frozen
class Workspace:
    folder: Path  # on the file system of the place, so that what is made here can be moved there
    is_alone: bool  # False where there are no locks: then another writer may be at work


@contextmanager
def workspace(place: Path) -> Iterator[Workspace]:
    """Whoever comes while another has it gets an error. The lock is the system's, so that it ends with its process."""
    lock = _take(place)
    if lock is None:
        folder = Path(tempfile.mkdtemp(prefix=f".{place.name[:40]}.", suffix=".tmp", dir=place.parent))
        try:
            yield Workspace(folder, is_alone=False)
        finally:
            if not os.path.lexists(folder / KEPT):
                shutil.rmtree(folder, ignore_errors=True)
        return
    folder = _folder(place)
    try:
        _tidy(folder, place)
        yield Workspace(folder, is_alone=True)
    finally:
        with suppress(OSError):  # why the writer failed is being told; the next one removes what is left
            _tidy(folder, place)
            (folder / _LOCK).unlink()
            folder.rmdir()
        close_lock(lock)


@contextmanager
def locked_directory(place: Path) -> Iterator[None]:
    """A directory that no save is writing into: saves of Treaty's own format lock it while they do."""
    try:
        descriptor = open_lock(place)
    except OSError as error:
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)) and error.errno != errno.ELOOP:
            raise
        yield  # a link that leads nowhere, and a file, have nothing to be locked
        return
    try:
        _lock(descriptor, place)
        yield
    finally:
        close_lock(descriptor)


def put_back(place: Path) -> None:
    """Where a writer was killed between two renames, so that nothing is at the place, let the old checkpoint return."""
    if not os.path.lexists(place) and os.path.lexists(_folder(place) / KEPT):
        with suppress(OSError, TreatyError), workspace(place):  # a live writer, or no permission: there is nothing
            pass


def is_left_at(place: Path) -> bool:
    """Whether a writer is at work, or died there."""
    return os.path.lexists(_folder(place))


def _folder(place: Path) -> Path:
    """The same for all writers of a place; a name may be 255 bytes long, so that it does not hold all of the place's."""
    number = zlib.crc32(os.fsencode(place.name))
    return place.with_name(f".{place.name[:40]}.{number:08x}.tmp")


def _take(place: Path) -> int | None:
    """The locked file, by its descriptor, of the folder; None where there are no locks."""
    folder = _folder(place)
    while True:
        with suppress(FileExistsError):
            folder.mkdir()
        if folder.is_symlink():
            raise TreatyError(f"expected a folder to work in, got a link at {folder}; remove it")
        try:
            lock = open_lock(folder / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK)  # a pipe would wait for a reader
        except FileNotFoundError:  # the one before has just removed its folder
            continue
        try:
            is_locked = _lock(lock, place)
            with suppress(FileNotFoundError):  # or the lock in it
                if is_locked and os.path.samestat(os.fstat(lock), os.stat(folder / _LOCK)):
                    return lock
        except BaseException:
            close_lock(lock)
            raise
        close_lock(lock)
        if not is_locked:
            with suppress(OSError):
                (folder / _LOCK).unlink()
                folder.rmdir()
            return None


def _lock(descriptor: int, place: Path) -> bool:
    """Whether it is locked: not every file system can. The lock of another is an error."""
    is_locked = try_lock(descriptor)
    if is_locked is False:
        raise TreatyError(f"expected {place} to be free, got another save that is writing to it")
    return is_locked is True


def _tidy(folder: Path, place: Path) -> None:
    """Remove all but the lock, which must go last: without it another could begin here."""
    if os.path.lexists(folder / KEPT) and not os.path.lexists(place):
        os.rename(folder / KEPT, place)
    for name in os.listdir(folder):
        if name != _LOCK:
            remove(folder / name)


def remove(path: Path) -> None:
    """A file, a link, or a directory with all in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
