"""Where a checkpoint lies: a local directory, or a TensorStore key-value store by URL. Nothing else knows which.

Both commit the same way: everything goes under a fresh `data-…/` first, the manifest that names it comes last and
replaces the previous one at once, and only then does the previous data go. A reader sees the old or the new checkpoint.
"""

import errno
import fcntl
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from treaty.runtime._errors import CorruptCheckpointError, IncompleteCheckpointError
from treaty.runtime.directory._hash import running
from treaty.runtime.directory._manifest import DATA, NAME, data_of
from treaty.schema import TreatyError

PathLike: TypeAlias = "str | os.PathLike[str]"

_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SQUASHED: Final = re.compile(r"(file|gs|s3):/")
_LEFTOVER: Final = re.compile(rf"\.{re.escape(NAME)}\.[0-9a-f]+\.tmp\Z")
_BLOCK: Final = 2**20  # bytes read at a time
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class Place(Protocol):
    """One checkpoint's place. `data` is always the name of a data directory inside it."""

    @property
    def where(self) -> str: ...

    @property
    def kvstore(self) -> Mapping[str, Any]:
        """TensorStore's spec of the place, ending in a slash."""

    def manifest(self) -> bytes | None:
        """The committed manifest, if there is one."""

    def begin(self) -> None:
        """Take the place for writing."""

    def prepare(self, data: str) -> None:
        """Make room for new data."""

    def commit(self, data: str, manifest: bytes) -> None:
        """Make written data the checkpoint."""

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
    text = os.fspath(path)
    if text.startswith("file://"):
        from urllib.parse import unquote

        text = unquote(text.removeprefix("file://"))
        if not text.startswith("/"):
            raise TreatyError(f"expected file:///path, with three slashes, got {os.fspath(path)}")
    elif _URL.match(text):
        from treaty.runtime.directory._remote import Remote

        return Remote(text)
    elif _SQUASHED.match(text):
        raise TreatyError(f"expected a URL as a str, got {path!r}: a Path makes one slash of two")
    if "\0" in text or not text:
        raise TreatyError(f"expected a path, got {text!r}")
    return Local(Path(text))


def committed(place: Place) -> bytes:
    """The manifest, or the reason why there is no checkpoint."""
    content = place.manifest()
    if content is None:
        raise IncompleteCheckpointError(
            f"expected a checkpoint, got no {NAME} at {place.where}: nothing was saved there, or the save did not finish"
        )
    return content


class Local:
    """A directory. Saves hold an flock on it, so a crashed save leaves no lock behind and its remains can be removed."""

    def __init__(self, path: Path) -> None:
        self.where = str(path.absolute())
        # Without links and "..", once and for all: a link that is turned meanwhile shall not tear a save apart.
        self.path = Path(os.path.realpath(path))
        self._lock = -1
        self._is_alone = False
        self._previous: str | None = None

    @property
    def kvstore(self) -> Mapping[str, Any]:
        """Each file is written by one process only, and `sync` comes later: TensorStore shall neither lock nor sync."""
        quick = {"file_io_sync": False, "file_io_locking": {"mode": "none"}}
        return {"driver": "file", "path": f"{self.path}/", **quick}

    def manifest(self) -> bytes | None:
        try:
            with _opened(self.path / NAME) as file:
                return file.readall()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def begin(self) -> None:
        try:
            self._make()
        except OSError as error:
            raise TreatyError(f"cannot save to {self.where}: {error}") from error
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._is_alone = self._take_lock()
            content = self.manifest()
            self._previous = None if content is None else data_of(content)
            if content is None or self._previous is not None:  # of a damaged manifest it is not known what it named
                self._clean(self._previous, synced=False)
        except BaseException:
            self._release()
            raise

    def prepare(self, data: str) -> None:
        (self.path / data).mkdir()
        _files().sync_directory(self.path)

    def commit(self, data: str, manifest: bytes) -> None:
        self.sync(data)
        _files().write_pieces(self.path / NAME, [manifest])
        self._clean(data, synced=True)
        self._release()

    def sync(self, name: str) -> None:
        _files().sync_directory(self.path / name)

    def abandon(self, data: str | None) -> None:
        try:
            committed = data is None or data.encode() in (self.manifest() or b"")  # it may have failed after the rename
            if data is not None and not committed:
                _remove(self.path / data)
        except OSError:
            pass  # why the save failed is being told; the next one removes what is left
        finally:
            self._release()

    def sizes(self, data: str) -> Mapping[str, int | None]:
        found: dict[str, int | None] = {}
        pending = [(self.path / data, "")]
        while pending:
            folder, prefix = pending.pop()
            try:
                entries = list(os.scandir(folder))
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append((Path(entry.path), f"{prefix}{entry.name}/"))
                else:
                    with suppress(OSError):  # removed by a save that was faster, or a link that leads nowhere
                        found[prefix + entry.name] = entry.stat().st_size
        return found

    def read_into(self, name: str, view: memoryview) -> str:
        """Each block is hashed while it is in the processor's cache."""
        hashed = running()
        try:
            with _opened(self.path / name) as file:
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

    def _make(self) -> None:
        """The directory and its parents, each fsynced where it was entered."""
        missing = [self.path, *self.path.parents]
        missing = missing[: next(i for i, folder in enumerate(missing) if folder.exists())]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            _files().sync_directory(folder.parent)
        try:
            others = [name for name in os.listdir(self.path) if not _ours(name)]
        except NotADirectoryError:
            raise TreatyError(f"expected a directory or nothing, got a file at {self.where}") from None
        if others:
            raise TreatyError(
                f"expected a checkpoint or an empty directory, got {min(others)} in {self.where}; "
                "save somewhere else: a checkpoint has its directory for itself"
            )

    def _take_lock(self) -> bool:
        """Whether no other save can be under way; some network file systems cannot tell."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TreatyError(f"expected {self.where} to be free, got another save that is writing to it") from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return False
        return True

    def _clean(self, kept: str | None, *, synced: bool) -> None:
        """Remove what is not `kept`: the previous data, and, where no other save can be under way, all remains.

        A killed save may have renamed its manifest and not synced it: then the one on disk names the older data.
        """
        ours = [name for name in os.listdir(self.path) if DATA.match(name) or _LEFTOVER.match(name)]
        names = [name for name in ours if name != kept and (self._is_alone or name == self._previous)]
        if names and not synced:
            _files().sync_directory(self.path)
        for name in names:
            folder = self.path / name
            _remove(folder) if folder.is_dir() else folder.unlink(missing_ok=True)

    def _release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _opened(path: Path) -> FileIO:
    """A file and nothing else: opening a pipe would wait for its other end, and a device may have no end at all."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise
        if error.errno in (errno.ENXIO, errno.ELOOP):  # a socket; a link to itself
            raise CorruptCheckpointError(f"expected a file, got {error.strerror} at {path}") from None
        raise TreatyError(f"cannot read {path}: {error.strerror}") from error
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return FileIO(descriptor, "r")
    os.close(descriptor)
    raise CorruptCheckpointError(f"expected a file, got something else at {path}")


def _remove(folder: Path) -> None:
    from shutil import rmtree  # which imports more than looking into a checkpoint takes

    rmtree(folder, ignore_errors=True)


def _files() -> Any:
    from treaty.runtime import _files as files  # not for looking into a checkpoint: it needs numpy

    return files


def _ours(name: str) -> bool:
    return name == NAME or DATA.match(name) is not None or _LEFTOVER.match(name) is not None
