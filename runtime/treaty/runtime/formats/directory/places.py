"""Where a checkpoint lies: a local directory, or a TensorStore key-value store by URL. Nothing else knows which.

Both commit the same way: everything goes under a fresh `data-…/` first, the manifest that names it comes last and
replaces the previous one at once, and only then does the previous data go. A reader sees the old or the new checkpoint.
"""

import errno
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from xxhash import xxh3_64

from treaty.runtime._errors import CorruptCheckpointError, MissingCheckpointError, cannot, storing
from treaty.runtime._process.forks import close_lock, open_lock, try_lock
from treaty.runtime._storage.directories import make_directory, sizes_below, sync_directory
from treaty.runtime._storage.overtaken import TRIES, mark
from treaty.runtime._storage.paths import for_tensorstore, is_stray, path_or_url
from treaty.runtime.formats.directory import owner
from treaty.runtime.formats.directory.manifest import DATA, NAME, data_of
from treaty.schema import TreatyError

PathLike: TypeAlias = "str | os.PathLike[str]"
_LEFTOVER: Final = re.compile(rf"\.{re.escape(NAME)}\.[0-9a-f]+\.tmp\Z")
GRACE: Final = 900.0  # seconds in which data may change no more, and its save still be alive on another host
_BLOCK: Final = 2**20  # bytes read at a time
_MOST_SYNCED: Final = 64

_synced: dict[str, object] = {}  # where this process has committed last, and what each manifest is known by


class Place(Protocol):
    """One checkpoint's place. `data` is always the name of a data directory inside it."""

    @property
    def where(self) -> str: ...

    @property
    def kvstore(self) -> Mapping[str, Any]:
        """TensorStore's spec of the place, ending in a slash."""

    def manifest(self) -> bytes | None:
        """The committed manifest, if there is one."""

    def begin(self) -> str:
        """Take the place for writing; the name for the new data."""

    def prepare(self, data: str) -> None:
        """Make room for new data, and remove what dead saves left."""

    def put(self, name: str, content: Any, what: str) -> None:
        """Write a new file, which lasts through a power cut when its directory is synced. `what` is for messages."""

    def commit(self, data: str, manifest: bytes, files: Mapping[str, int]) -> None:
        """Make written data the checkpoint: `files`, by their sizes. Fails if another save took the place meanwhile."""

    def sync(self, name: str) -> None:
        """Make a file, or the names in a directory, last through a power cut."""

    def abandon(self, data: str | None) -> None:
        """Give the place up, and remove data that was not committed."""

    def sizes(self, data: str) -> Mapping[str, int | None]:
        """Every file under `data`, and its size where the store tells."""

    def read_into(self, name: str, view: memoryview) -> str:
        """Fill a buffer with a file that must be exactly as long, and give the checksum of what was read."""


def place_of(path: PathLike) -> Place:
    """A path or a `file://` URL is a directory; other URLs are for TensorStore."""
    text, is_url = path_or_url(path)
    if is_url:
        from treaty.runtime.formats.directory.remote import Remote

        return Remote(text)
    return Local(Path(text))


def committed(place: Place, content: bytes | None) -> bytes:
    """The manifest that was found, or the reason why there is no checkpoint."""
    if content is None and isinstance(place, Local):
        from treaty.runtime._storage.workspace import put_back  # not for looking into a checkpoint that is there

        put_back(place.path)
        content = place.manifest()
    if content is None:
        raise MissingCheckpointError(
            f"expected a checkpoint, got no {NAME} at {place.where}: nothing was saved there, or the save did not finish"
        )
    return content


class Local:
    """A directory. Saves hold an flock on it, so a crashed save leaves no lock behind.

    A network file system may keep locks to each host. So nothing is removed that a save of another host may still commit,
    and before a manifest is put in place, what it names and what it replaces is looked at again.
    """

    def __init__(self, path: Path) -> None:
        self.where = str(path.absolute())
        # Without links and "..", once and for all: a link that is turned meanwhile shall not tear a save apart.
        self.path = Path(os.path.realpath(path))
        self._lock = -1
        self._is_alone = False
        self._seen: bytes | None = None  # the manifest when the save began

    @property
    def kvstore(self) -> Mapping[str, Any]:
        """Each file is written by one process only, and `sync` comes later: TensorStore shall neither lock nor sync."""
        quick = {"file_io_sync": False, "file_io_locking": {"mode": "none"}}
        return {"driver": "file", "path": for_tensorstore(self.path), **quick}

    def manifest(self) -> bytes | None:
        try:
            with storing("read", self.where), _opened(self.path / NAME) as file:
                return file.readall()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def begin(self) -> str:
        for _ in range(TRIES):
            with storing("write", self.where):
                if self._is_taken():
                    return owner.take_name()
        raise TreatyError(
            f"expected {self.where} to stay, got {TRIES} directories there that went before they were locked"
        )

    def prepare(self, data: str) -> None:
        new, previous = self.path / data, self._previous()
        with storing("write", self.where):
            if previous is None or not (self.path / previous).is_dir():
                new.mkdir()
            else:
                from treaty.runtime._storage.permissions import keep_permissions

                new.mkdir(0o700)
                keep_permissions(self.path / previous, new)
            sync_directory(self.path)
        if self._seen is None or previous is not None:  # of a damaged one it is not known what it named
            self._clean(data, None)

    def put(self, name: str, content: Any, what: str) -> None:
        from treaty.runtime._storage.files import write_new  # not for looking into a checkpoint: it needs numpy

        with storing(f"write {what} in", self.where):
            try:
                write_new(self.path / name, content)
            except FileNotFoundError:
                os.makedirs((self.path / name).parent, exist_ok=True)
                write_new(self.path / name, content)

    def commit(self, data: str, manifest: bytes, files: Mapping[str, int]) -> None:
        with storing("write", self.where):
            self._put_in_place(data, manifest, files)
        self._note_synced()
        self._clean(data, self._previous())
        self._release()
        owner.release_name(data)

    def _put_in_place(self, data: str, manifest: bytes, files: Mapping[str, int]) -> None:
        from treaty.runtime._storage.files import write_pieces  # not for looking into a checkpoint: it needs numpy

        try:
            os.utime(self.path / data)  # not old, for a save of another host that cleans now
            self.sync(data)
            self._look_again(data, files)
            write_pieces(self.path / NAME, [manifest])
        except FileNotFoundError as error:
            raise self._taken(f"{data} as it was written, got nothing") from error

    def sync(self, name: str) -> None:
        sync_directory(self.path / name)

    @property
    def is_synced(self) -> bool:
        """Whether this process committed what is here, so that every file of it lasts. A copy may still be in memory only."""
        known = _synced.get(str(self.path))
        return known is not None and known == self._own_mark()

    def _own_mark(self) -> object:
        """With the time of its inode, which nobody can give to a copy."""
        with suppress(OSError):  # replaced by another save; it is committed all the same
            return mark(self.path / NAME), os.stat(self.path / NAME).st_ctime_ns
        return None

    def _note_synced(self) -> None:
        _synced.pop(str(self.path), None)
        _synced[str(self.path)] = self._own_mark()
        while len(_synced) > _MOST_SYNCED:
            _synced.pop(next(iter(_synced)), None)

    def abandon(self, data: str | None) -> None:
        try:
            committed = data is None or data.encode() in (self.manifest() or b"")  # it may have failed after the rename
            if data is not None and not committed:
                _remove(self.path / data)
        except OSError:
            pass  # why the save failed is being told; the next one removes what is left
        finally:
            self._release()
            owner.release_name(data or "")

    def sizes(self, data: str) -> Mapping[str, int | None]:
        with storing("read", self.where):
            return sizes_below(self.path / data)

    def read_into(self, name: str, view: memoryview) -> str:
        """Each block is hashed while it is in the processor's cache."""
        hashed = xxh3_64()
        try:
            with storing("read", self.where), _opened(self.path / name) as file:
                size = os.fstat(file.fileno()).st_size
                if size != len(view):
                    raise CorruptCheckpointError(f"expected {len(view)} bytes, got {size} in {name}")
                while view:
                    count = file.readinto(view[:_BLOCK])
                    if not count:
                        raise CorruptCheckpointError(f"expected {len(view)} bytes more, got the end of {name}")
                    hashed.update(view[:count])
                    view = view[count:]
        except (FileNotFoundError, NotADirectoryError):
            raise CorruptCheckpointError(f"expected a file, got nothing at {name}") from None
        return hashed.hexdigest()

    def _previous(self) -> str | None:
        """The data that the manifest named when the save began; None of one that is damaged, too."""
        return None if self._seen is None else data_of(self._seen)

    def _make(self) -> None:
        """The directory and its parents, each fsynced where it was entered."""
        for_tensorstore(self.path)
        make_directory(self.path)
        try:
            others = [name for name in os.listdir(self.path) if not _ours(name) and not is_stray(name)]
        except NotADirectoryError:
            raise TreatyError(f"expected a directory or nothing, got a file at {self.where}") from None
        if others:
            raise TreatyError(
                f"expected a checkpoint or an empty directory, got {min(others)} in {self.where}; "
                "save somewhere else: a checkpoint has its directory for itself"
            )

    def _is_taken(self) -> bool:
        """Whether the directory that was locked is still the one at the path."""
        self._make()
        self._lock = open_lock(self.path)
        try:
            is_locked = try_lock(self._lock)
            if is_locked is False:
                raise TreatyError(f"expected {self.where} to be free, got another save that is writing to it")
            self._is_alone = is_locked is True  # some network file systems cannot tell
            with suppress(FileNotFoundError, NotADirectoryError):
                if os.path.samestat(os.fstat(self._lock), os.stat(self.path)):
                    self._seen = self.manifest()
                    return True
        except BaseException:
            self._release()
            raise
        self._release()
        return False

    def _look_again(self, data: str, files: Mapping[str, int]) -> None:
        found = self.sizes(data)
        # A list may be old where another host wrote; a file that is opened is not.
        lost = [name for name, size in files.items() if found.get(name) != size and self._size(data, name) != size]
        if lost:
            raise self._taken(f"{data}/{min(lost)} as it was written, got something else")
        if self.manifest() != self._seen:
            raise self._taken(f"{NAME} as it was when the save began, got another one")

    def _taken(self, expected: str) -> TreatyError:
        return TreatyError(
            f"expected {expected} in {self.where}: another save took the place meanwhile, and is left as it is"
        )

    def _size(self, data: str, name: str) -> int | None:
        try:
            with _opened(self.path / data / name) as file:
                return os.fstat(file.fileno()).st_size
        except (OSError, TreatyError):
            return None

    def _clean(self, data: str, previous: str | None) -> None:
        """Remove the previous data, and all remains of which nobody can make a checkpoint any more.

        A killed save may have renamed its manifest and not synced it: then the one on disk names the older data, but this
        save has synced the directory since. What cannot be removed makes no save fail: a later one tries again.
        """
        try:
            self._remove_remains(data, previous)
        except (OSError, TreatyError) as error:
            from treaty.runtime._process.watching import log  # not for looking into a checkpoint

            log.warning("remains of earlier saves in %s could not be removed: %s", self.where, error)

    def _remove_remains(self, data: str, previous: str | None) -> None:
        try:
            now = os.stat(self.path / data).st_mtime  # by the clock of the file system
        except FileNotFoundError:
            return  # replaced already, by a save that cleans up itself
        ours = [name for name in os.listdir(self.path) if DATA.match(name) or _LEFTOVER.match(name)]
        names = {name for name in ours if name == previous or self._is_dead(name, now)} - {data}
        # After the above: what was dead then has committed before, or never will.
        content = self.manifest()
        failed: OSError | None = None
        for name in names - {None if content is None else data_of(content)}:
            try:
                _remove(self.path / name)
            except OSError as error:  # which keeps nothing else from being removed
                failed = error
        if failed is not None:
            raise failed

    def _is_dead(self, name: str, now: float) -> bool:
        """Whether remains belong to no save that is under way; if it cannot be known, young ones may."""
        if _LEFTOVER.match(name) and self._is_alone:
            return True
        if DATA.match(name) and owner.is_dead(name):
            return True
        return _newest(self.path / name) < now - GRACE

    def _release(self) -> None:
        if self._lock >= 0:
            close_lock(self._lock)
            self._lock = -1


def is_abandoned(folder: Path) -> bool:
    """Whether a directory holds nothing but what saves have left of which none can be committed any more.

    A manifest that was not put in place is of one of the data that are there; without data it is of none.
    """
    try:
        names = [name for name in os.listdir(folder) if not is_stray(name)]
        data = [name for name in names if DATA.match(name)]
        now = _clock(folder.parent) if data else 0.0
    except OSError:
        return False
    ours = all(name in data or _LEFTOVER.match(name) for name in names)
    return ours and all(owner.is_dead(name) or _newest(folder / name) < now - GRACE for name in data)


def _clock(folder: Path) -> float:
    """What time it is for the file system."""
    os.utime(folder)
    return folder.stat().st_mtime


def _opened(path: Path) -> FileIO:
    """A file and nothing else: opening a pipe would wait for its other end, and a device may have no end at all."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise
        if error.errno in (errno.ENXIO, errno.ELOOP):  # a socket; a link to itself
            raise CorruptCheckpointError(f"expected a file, got {error.strerror} at {path}") from None
        raise cannot("read", path, error) from error
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return FileIO(descriptor, "r")
    os.close(descriptor)
    raise CorruptCheckpointError(f"expected a file, got something else at {path}")


def _newest(path: Path) -> float:
    """When a file, or anything in a directory, was last changed."""
    found = [0.0]
    pending = [path]
    while pending:
        with suppress(FileNotFoundError, NotADirectoryError):  # removed meanwhile; a file
            one = pending.pop()
            found.append(one.lstat().st_mtime)
            for entry in os.scandir(one):
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
                else:
                    found.append(entry.stat(follow_symlinks=False).st_mtime)
    return max(found)


def _remove(path: Path) -> None:
    from treaty.runtime._storage.workspace import remove  # which imports more than looking into a checkpoint takes

    remove(path)


def _ours(name: str) -> bool:
    return name == NAME or DATA.match(name) is not None or _LEFTOVER.match(name) is not None
