"""Files that are whole or not there: written beside their place, fsynced, and renamed; read through a map."""

import errno
import gzip
import mmap
import os
import secrets
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias

import numpy as np

from treaty.runtime._errors import CorruptCheckpointError, MissingCheckpointError, cannot, storing
from treaty.runtime._process.forks import close_lock, open_lock, try_lock
from treaty.runtime._process.uninterrupted import go_on, uninterrupted
from treaty.runtime._storage.directories import sync_directory
from treaty.runtime._storage.paths import local_path
from treaty.runtime._storage.permissions import keep_permissions
from treaty.runtime._storage.system import start_writing
from treaty.schema import TreatyError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_BUFFERS: Final = 1024  # in one writev; what every system takes
_HELD: Final = 2**24  # bytes gathered before they are written
_STARTED: Final = 2**25  # bytes after which the disk is told to begin
_BLOCK: Final = 2**20  # bytes given to a compressor at a time, which bounds what it holds
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def replacing(path: str | os.PathLike[str], like: str | os.PathLike[str] | None = None) -> Iterator[int]:
    """A descriptor of a new file that takes the place of `path` when all went well; otherwise that stays as it is.

    It is for those who may read what it replaces, or the file that it is to be `like`, and else as the umask says.
    """
    outer = sys.exception()
    try:
        place = Path(os.path.realpath(local_path(path)))
        _refuse_special(place)
        temporary, descriptor = _created(place, place if os.path.exists(place) else like)
        try:
            yield descriptor
            os.fsync(descriptor)
            os.replace(temporary, place)
        except BaseException:
            _remove(descriptor, temporary)
            raise
        finally:
            close_lock(descriptor)
        sync_directory(place.parent)
    except BaseException as error:
        first = _first(error, outer)
        if isinstance(first, OSError) and not isinstance(first, TreatyError):
            raise cannot("write", path, first) from first
        raise


def _created(place: Path, like: str | os.PathLike[str] | None) -> tuple[Path, int]:
    """A new file beside a place, which nobody can read who could not read the other, and its descriptor.

    The name is the place's, and the file is locked: so what a writer left that was killed is known, and removed. While
    another writes to the place, or where there are no locks, a name of its own serves.
    """
    number = zlib.crc32(b"/" + os.fsencode(place.name))  # not the number of its workspace
    short = f".{place.name[:40]}"  # a name may be 255 bytes long
    temporary = place.with_name(f"{short}.{number:08x}.tmp")
    descriptor = _open_new(temporary, like)
    if descriptor is None:
        temporary = place.with_name(f"{short}.{secrets.token_hex(6)}.tmp")
        descriptor = open_lock(temporary, _NEW, 0o666 if like is None else 0o600)
    try:
        if like is not None:
            with suppress(FileNotFoundError):  # removed by another writer: then it is for its owner alone
                keep_permissions(like, descriptor)
    except BaseException:
        _remove(descriptor, temporary)
        close_lock(descriptor)
        raise
    return temporary, descriptor


def _open_new(temporary: Path, like: object) -> int | None:
    """A new and locked file; None where a live writer has one of this name."""
    while True:
        try:
            descriptor = open_lock(temporary, _NEW, 0o666 if like is None else 0o600)
        except FileExistsError:
            if not _removed_dead(temporary):
                return None
            continue
        is_locked = None
        try:
            is_locked = try_lock(descriptor)
            if is_locked and _is_at(descriptor, temporary):
                return descriptor
        except BaseException:
            _remove(descriptor, temporary)
            close_lock(descriptor)
            raise
        # Another writer took it for a dead one's before it was locked, and removes it; or there are no locks.
        if is_locked is None:
            _remove(descriptor, temporary)
        close_lock(descriptor)
        return None


def _removed_dead(temporary: Path) -> bool:
    """Whether what a killed writer left is gone."""
    try:
        descriptor = open_lock(temporary, os.O_WRONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return True
    except OSError:  # of another user, a link, or a pipe that nobody reads
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not try_lock(descriptor):
            return False
        _remove(descriptor, temporary)
        return not _is_at(descriptor, temporary)
    finally:
        close_lock(descriptor)


def _remove(descriptor: int, temporary: Path) -> None:
    """While it is locked: without the lock another writer may have a file of this name by now."""
    with suppress(OSError):
        if _is_at(descriptor, temporary):
            temporary.unlink(missing_ok=True)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _first(error: BaseException, outer: BaseException | None) -> BaseException:
    """What failed first: closing a half-written archive fails, too, and would hide that the disk is full."""
    first = error
    while first.__context__ not in (None, outer) and not first.__suppress_context__:
        assert first.__context__ is not None
        first = first.__context__
    return first if isinstance(first, OSError) else error


@uninterrupted
def write_pieces(
    path: str | os.PathLike[str], pieces: Sequence[Any], like: str | os.PathLike[str] | None = None
) -> None:
    """Write buffers one after the other, compressed if the suffix says so; none is copied or joined in memory.

    What has a method `pieces` stands for the buffers that this gives when its turn comes.
    """
    compressor = _COMPRESSORS.get(Path(path).suffix)
    if compressor is None:
        write_stream(path, pieces, sum(map(_length, pieces)), like)
        return
    with (
        replacing(path, like) as descriptor,
        os.fdopen(descriptor, "wb", closefd=False) as file,
        compressor(file, "wb") as stream,
    ):
        for block in _blocks(pieces):
            go_on()
            stream.write(block)


@uninterrupted
def write_stream(
    path: str | os.PathLike[str], pieces: Iterable[Any], size: int, like: str | os.PathLike[str] | None = None
) -> None:
    """Write buffers of `size` bytes in all that may be made while others are written; few are held at a time."""
    with replacing(path, like) as descriptor:
        _reserve(descriptor, size)
        batch: list[Any] = []
        behind = WriteBehind(descriptor)
        held = written = 0
        for piece in _spread(pieces):
            batch.append(piece)
            held += _length(piece)
            if len(batch) == _BUFFERS or held >= _HELD:
                go_on()
                _write_all(descriptor, batch)
                batch, held, written = [], 0, written + held
                behind.reached(written)
        if batch:
            _write_all(descriptor, batch)


def write_new(path: str | os.PathLike[str], content: Any) -> None:
    """A file that is not there yet, from one buffer; it lasts through a power cut when its directory is synced."""
    descriptor = os.open(path, _NEW, 0o666)
    try:
        _write_all(descriptor, [content])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class WriteBehind:
    """Lets the disk begin while a file is still being written."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._started = 0

    def reached(self, written: int) -> None:
        """So many bytes of the file are there."""
        if written - self._started >= _STARTED:
            start_writing(self._descriptor, self._started, written - self._started)
            self._started = written


def map_file(path: str | os.PathLike[str]) -> "mmap.mmap | bytes":
    """The bytes of a file as they are, mapped; there is no map of nothing."""
    with storing("read", path), open_file(path) as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def read_buffer(path: str | os.PathLike[str], folder: Path | None = None) -> Any:
    """The contents of a file: a map of it, or, where it begins as a compressed one does, memory.

    With a `folder`, what is compressed is unpacked into a nameless file there, which is then mapped.
    """
    with storing("read" if folder is None else "unpack", path), open_file(path) as file:
        compressor = _compressor(file)
        if compressor is None:
            return map_file(path)
        blocks = _decompressed(compressor(file, "rb"), path)
        if folder is None:
            contents = bytearray()  # grows in place: the system moves pages, not bytes
            for block in blocks:
                contents += block
            return contents
        with tempfile.TemporaryFile(dir=folder) as unpacked:
            unpacked.writelines(blocks)
            unpacked.flush()
            return mmap.mmap(unpacked.fileno(), 0, access=mmap.ACCESS_READ) if unpacked.tell() else b""


def open_file(path: str | os.PathLike[str]) -> IO[bytes]:
    """A file to read, and nothing that is not a file."""
    try:
        place = local_path(path)
        _refuse_special(place)
        return open(place, "rb")
    except FileNotFoundError:
        raise MissingCheckpointError(f"expected a file, got nothing at {os.fspath(path)!r}") from None


def _refuse_special(path: str | os.PathLike[str]) -> None:
    """To open a pipe can take for ever, and a device would be replaced by a file."""
    mode = os.stat(path).st_mode if os.path.exists(path) else stat.S_IFREG
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "expected a file, got a pipe or a device", os.fspath(path))


def _compressor(file: IO[bytes]) -> "_Compressor | None":
    start = file.read(4)
    file.seek(0)
    return next((one for magic, one in _MAGIC.items() if start.startswith(magic)), None)


def _decompressed(stream: IO[bytes], path: str | os.PathLike[str]) -> Iterator[bytes]:
    try:
        with stream:
            while block := stream.read(_BLOCK):
                go_on()
                yield block
    except (gzip.BadGzipFile, EOFError, zlib.error, zstd.ZstdError) as error:
        raise CorruptCheckpointError(f"expected a whole compressed file, got {error} in {path}") from error


def _reserve(descriptor: int, size: int) -> None:
    """Find out that the disk is full before writing, and let the file system lay the file out at once."""
    if size and hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise


def _write_all(descriptor: int, buffers: Sequence[Any]) -> None:
    written = os.writev(descriptor, buffers)
    left = sum(map(_length, buffers)) - written
    for buffer in buffers if left else ():
        skipped = min(written, _length(buffer))
        written -= skipped
        rest = _flat(buffer)[skipped:]
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _blocks(pieces: Iterable[Any]) -> Iterator[memoryview]:
    for piece in map(_flat, _spread(pieces)):
        for start in range(0, len(piece), _BLOCK):
            yield piece[start : start + _BLOCK]


def _spread(pieces: Iterable[Any]) -> Iterator[Any]:
    for piece in pieces:
        if hasattr(piece, "pieces"):
            yield from piece.pieces()
        else:
            yield piece


def _length(buffer: Any) -> int:
    return len(buffer) if type(buffer) is bytes else buffer.nbytes


def _flat(buffer: Any) -> memoryview:
    """The bytes of a buffer; of an array through uint8, since memoryview does not know every dtype."""
    return memoryview(buffer if type(buffer) is bytes else buffer.reshape(-1).view(np.uint8))


def _gzip(file: IO[bytes], mode: Literal["rb", "wb"]) -> gzip.GzipFile:
    return gzip.GzipFile("", mode, 6, file, mtime=0)  # no name, no time: equal states give equal files


def _zstd(file: IO[bytes], mode: Literal["rb", "wb"]) -> zstd.ZstdFile:
    if mode == "rb":
        return zstd.ZstdFile(file, "rb")
    return zstd.ZstdFile(file, "wb", options={zstd.CompressionParameter.checksum_flag: 1})  # or flipped bits go unseen


_Compressor: TypeAlias = Callable[[IO[bytes], Literal["rb", "wb"]], Any]
_COMPRESSORS: Final[Mapping[str, _Compressor]] = {
    ".gz": _gzip,
    ".zst": _zstd,
}
# In MessagePack these would be numbers.
_MAGIC: Final[Mapping[bytes, _Compressor]] = {b"\x1f\x8b": _gzip, b"\x28\xb5\x2f\xfd": _zstd}
