"""The zip archive below np.savez: members to lazy arrays and back. Pickles, which numpy could put in, are refused."""

import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import ml_dtypes
import numpy as np

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError
from treaty.runtime._lazy import HostArray, LazyArray, as_bytes, pieces
from treaty.runtime._process.uninterrupted import go_on, uninterrupted
from treaty.runtime._storage.files import WriteBehind, replacing
from treaty.runtime._storage.open_file import OpenFile
from treaty.runtime.formats.npz.stored import Stored
from treaty.schema import TreatyError

_LOCAL: Final = struct.Struct("<4s5H3I2H")  # the header in front of a member
_ZIP64: Final = 20  # bytes that zipfile adds to it for lengths over 4 GiB
_LONGEST: Final = 2**16 - 1  # bytes of the name of a member
_PADDING: Final = 0xD935  # a field for alignment that archives of Android have too
_ALIGN: Final = 64
_HEADER: Final = 2**16  # bytes in which the header of an array must end
_ENCRYPTED: Final = 1
_UTF8: Final = 0x800  # of the names
_DESCRIPTOR: Final = 24  # bytes that writers of streams put behind a member


def read_archive(path: str | os.PathLike[str]) -> dict[str, LazyArray]:
    """The arrays of a file by name. It is read, not mapped: np.savez changes files in place, and a map of one would crash."""
    file = OpenFile(path)
    try:
        with file.stream() as source, zipfile.ZipFile(source) as archive:
            members, end = archive.infolist(), archive.start_dir
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
        raise CorruptCheckpointError(f"expected a file of np.savez, got {error} in {path}") from None
    _require_no_gaps(path, file, members, end)
    arrays: dict[str, LazyArray] = {}
    for member in members:
        name = member.filename.removesuffix(".npy")
        if name in arrays or name == member.filename:
            raise CorruptCheckpointError(f"expected arrays with a name each, got {member.filename!r} in {path}")
        arrays[name] = _array(path, file, member)
    return arrays


@uninterrupted
def write_archive(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Not compressed, so that it can be mapped; every array begins at a multiple of 64 bytes."""
    with (
        replacing(path) as descriptor,
        os.fdopen(descriptor, "wb", closefd=False) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
    ):
        behind = WriteBehind(descriptor)
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")
            start = file.tell() + _LOCAL.size + _length(member.filename) + _ZIP64 + 4
            padding = -start % _ALIGN
            member.extra = struct.pack("<HH", _PADDING, padding) + bytes(padding)
            with archive.open(member, "w", force_zip64=True) as stream:
                for piece in _pieces(array, stream):
                    go_on()
                    stream.write(piece)
                    behind.reached(file.tell())


def _length(name: str) -> int:
    """In bytes, as a header has it."""
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"expected keys of Unicode text, got {name!r}") from None
    if length > _LONGEST:
        raise InvalidArgumentError(
            f"expected keys that a zip archive can hold, of {_LONGEST} bytes in all, got {length} at {name[:80]}…"
        )
    return length


def _require_no_gaps(path: Any, file: OpenFile, members: list[zipfile.ZipInfo], end: int) -> None:
    """A damaged directory may have lost members, which zipfile does not notice; their bytes are still there."""
    reached = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        if not reached <= member.header_offset <= reached + _DESCRIPTOR:
            raise CorruptCheckpointError(f"expected a member, got stray bytes at byte {reached} of {path}")
        reached = _start(file, member, f"{member.filename!r} in {path}") + member.compress_size
    if not reached <= end <= reached + _DESCRIPTOR:
        raise CorruptCheckpointError(f"expected a member, got stray bytes at byte {reached} of {path}")


def _pieces(array: Any, stream: Any) -> Iterator[Any]:
    """Write the header of an array, and give its bytes, few at a time."""
    array = array if isinstance(array, (LazyArray, np.ndarray)) else np.asarray(array)
    dtype = np.dtype(f"u{array.dtype.itemsize}") if hasattr(ml_dtypes, array.dtype.name) else array.dtype
    if dtype.hasobject:
        raise InvalidArgumentError(f"expected numbers or text, got dtype {dtype}")
    said = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": tuple(array.shape)}
    np.lib.format.write_array_header_1_0(stream, said)
    for piece in array.pieces() if isinstance(array, LazyArray) else pieces(array):
        yield as_bytes(piece)


def _array(path: Any, file: OpenFile, member: zipfile.ZipInfo) -> LazyArray:
    """The array of a member, after a look at its header alone."""
    place = f"{member.filename!r} in {path}"
    if member.flag_bits & _ENCRYPTED:
        raise CorruptCheckpointError(f"expected an array, got an encrypted one at {place}")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise CorruptCheckpointError(
            f"expected an array as np.savez or np.savez_compressed store it, got compression {member.compress_type} at {place}"
        )
    stored = member.compress_type == zipfile.ZIP_STORED
    start = _start(file, member, place)
    try:
        if stored:
            head = file.read(start, min(_HEADER, member.file_size))
        else:
            with file.stream() as source, zipfile.ZipFile(source) as archive, archive.open(member) as stream:
                head = stream.read(_HEADER)
        shape, fortran, dtype, offset = _parse(head)
        if min(shape, default=0) >= 0:
            np.ndarray(shape, dtype, bytes(dtype.itemsize), strides=(0,) * len(shape))  # whether there are such arrays
    except TreatyError:
        raise
    except Exception as error:  # a header is Python text, and numpy raises whatever Python's parser does
        raise CorruptCheckpointError(f"expected an array, got {error} at {place}") from None
    if dtype.hasobject:
        raise CorruptCheckpointError(f"expected an array, got a pickle, which is never loaded, at {place}")
    size = math.prod(shape) * dtype.itemsize
    if (
        min(shape, default=0) < 0
        or member.file_size != offset + size
        or (stored and start + member.file_size > file.size)
    ):
        raise CorruptCheckpointError(f"expected {size} bytes of {dtype}{list(shape)}, got another length at {place}")
    if not stored:
        whole = partial(_decompressed, file, member, offset, place)
        return LazyArray(shape, dtype.newbyteorder("="), partial(_laid_out, whole, shape, dtype, fortran))
    lying = Stored(file, start + offset, shape, dtype, zlib.crc32(head[:offset]), member.CRC, place)
    read = partial(_laid_out, lying.read, shape, dtype, fortran)
    if not dtype.isnative or not dtype.itemsize or (fortran and len(shape) > 1):
        return LazyArray(shape, dtype.newbyteorder("="), read)
    return LazyArray(shape, dtype, read, lying.parts, lying.jobs, checked_whole=True)


def _laid_out(
    contents: Callable[[], HostArray], shape: tuple[int, ...], dtype: "np.dtype[Any]", fortran: bool
) -> HostArray:
    """Bytes as the array that they are, in the order of this machine."""
    array: HostArray = np.ndarray(shape, dtype, contents().data, order="F" if fortran else "C")
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def _start(file: OpenFile, member: zipfile.ZipInfo, place: str) -> int:
    """Where the bytes of a member begin. Its own header says it: in the archive's directory its fields may be of other lengths."""
    header = file.read(member.header_offset, _LOCAL.size) if member.header_offset >= 0 else b""
    if len(header) != _LOCAL.size or header[:4] != b"PK\x03\x04":
        raise CorruptCheckpointError(f"expected the header of a member, got something else at {place}")
    *_, length, extra = _LOCAL.unpack(header)
    start = member.header_offset + _LOCAL.size + int(length)
    name = file.read(start - int(length), int(length))
    if name != member.orig_filename.encode("utf-8" if member.flag_bits & _UTF8 else "cp437"):
        raise CorruptCheckpointError(f"expected one name, got {name!r} in the header at {place}")
    return start + int(extra)


def _parse(head: bytes) -> tuple[tuple[int, ...], bool, "np.dtype[Any]", int]:
    stream = io.BytesIO(head)
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version} of numpy's format")
    shape, fortran, dtype = readers[version](stream)
    return shape, fortran, dtype, stream.tell()


def _decompressed(file: OpenFile, member: zipfile.ZipInfo, offset: int, place: str) -> HostArray:
    """The bytes of a member from an offset on."""
    try:
        contents = bytearray(member.file_size)
        view = memoryview(contents)
        with file.stream() as source, zipfile.ZipFile(source) as archive, archive.open(member) as stream:
            reader: Any = stream  # a ZipExtFile, typed as less
            while view and (count := reader.readinto(view)):
                view = view[count:]
            stream.read(1)  # to the end, where the checksum is compared
    except TreatyError:
        raise
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, MemoryError) as error:
        raise CorruptCheckpointError(f"expected a compressed array, got {error!r} at {place}") from None
    if view:
        raise CorruptCheckpointError(f"expected {member.file_size} bytes, got {len(view)} fewer at {place}")
    return np.frombuffer(contents, np.uint8, offset=offset)
