"""State dicts -> MessagePack, byte for byte as Flax writes it (docs/format.md).

Arrays are ext type 1, numpy scalars ext type 3: the payload is MessagePack again, [shape, dtype name, bytes].
Python's complex is ext type 2, [real, imag]. All but the bytes of an array depends on its shape and dtype alone, so
a tree becomes a list of small constants and array buffers, and no array is copied before the whole is joined or written.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any, Final, TypeAlias

import jax
import msgpack
import numpy as np
from attrs import frozen

from treaty.runtime._errors import InvalidArgumentError, UnwritableArrayError
from treaty.runtime._lazy import LazyArray
from treaty.runtime._state.alike import AlikeRun, repeat_like
from treaty.runtime._state.numbering import packed_index_keys
from treaty.runtime._trees import MAX_DEPTH
from treaty.runtime.formats.msgpack.join import join
from treaty.runtime.formats.shared.host_array import host_array

HostArray: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Piece: TypeAlias = "bytes | HostArray"

CHUNK_BYTES: Final = 2**30  # Flax splits larger arrays, since MessagePack has no length over 2**32
NDARRAY: Final = 1
COMPLEX: Final = 2
SCALAR: Final = 3
CHUNKED: Final = "__msgpack_chunked_array__"


def encode(
    tree: object,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    runs: Mapping[int, AlikeRun] | None = None,
    as_flax: bool = False,
) -> list[Any]:
    """The bytes of a tree as constants and C-contiguous arrays in turn; `runs` marks dicts whose items are alike.

    For a lazy array stands what gives its pieces when asked. Flax writes a dict with the key by which it knows an array in
    parts, and takes it for one when it reads it: without `as_flax` that is refused.
    """
    encoder = _Encoder(chunk_bytes, runs or {}, as_flax)
    encoder.value(tree)
    return encoder.out


class _Encoder:
    def __init__(self, chunk_bytes: int, runs: Mapping[int, AlikeRun], as_flax: bool) -> None:
        self.out: list[Any] = []
        self.as_flax = as_flax
        self.depth = 0
        self.chunk_bytes = chunk_bytes
        self.runs = runs
        self.pack = msgpack.Packer(default=_extension, strict_types=True, autoreset=True).pack

    def value(self, value: Any) -> None:
        kind = type(value)
        if kind is dict:
            run = self.runs.get(id(value))
            self.mapping(value) if run is None else self.run(value, run)
        elif isinstance(value, (np.ndarray, jax.Array)):
            self.array(host_array(value))
        elif isinstance(value, LazyArray):
            self.lazy(value)
        elif kind is list:
            self.sequence(value)
        elif kind is jax.ShapeDtypeStruct:
            raise UnwritableArrayError("expected arrays with contents, got abstract ones")
        else:
            self.out.append(self.pack(value))

    def mapping(self, state: dict[Any, Any]) -> None:
        if CHUNKED in state and not self.as_flax:
            raise InvalidArgumentError(f"expected other keys than {CHUNKED!r}, which marks an array in parts, got it")
        self.out.append(_map_head(len(state)))
        self.enter()
        for key, value in state.items():
            self.out.append(_key(key) if type(key) is str else self.pack(key))
            if type(value) is np.ndarray and value.nbytes <= self.chunk_bytes:
                dtype = value.dtype  # isbuiltin is 0 for swapped and structured ones
                plain = value.flags.c_contiguous and dtype.isbuiltin and not dtype.hasobject
                array = value if plain else host_array(value)
                self.out += (array_head(NDARRAY, array.shape, array.dtype), array)
            else:
                self.value(value)
        self.depth -= 1

    def enter(self) -> None:
        if self.depth >= MAX_DEPTH:
            raise ValueError(f"expected at most {MAX_DEPTH} levels, got more")
        self.depth += 1

    def sequence(self, items: list[Any]) -> None:
        self.out.append(_list_head(len(items)))
        self.enter()
        outside = self.chunk_bytes, self.as_flax
        self.chunk_bytes, self.as_flax = 2**63, True  # Flax splits nothing below a list, nor joins it
        for item in items:
            self.value(item)
        self.chunk_bytes, self.as_flax = outside
        self.depth -= 1

    def array(self, array: HostArray) -> None:
        if array.nbytes > self.chunk_bytes:
            self.chunked(array)
        else:
            self.out += (array_head(NDARRAY, array.shape, array.dtype), array)

    def lazy(self, array: LazyArray) -> None:
        if array.nbytes <= self.chunk_bytes:
            self.out += (array_head(NDARRAY, array.shape, array.dtype), Chunks((), array))
        else:
            self.out.append(Chunks(tuple(self.chunk_heads(array)), array))

    def chunked(self, array: HostArray) -> None:
        """An array over the limit in Flax's form: a dict of flat parts."""
        flat = array.reshape(-1)
        start = 0
        for head, count in self.chunk_heads(array):
            self.out += (head, flat[start : start + count])
            start += count

    def chunk_heads(self, array: "HostArray | LazyArray") -> Iterator[tuple[bytes, int]]:
        """What goes before each part, and how many elements that has."""
        size = max(1, self.chunk_bytes // array.dtype.itemsize)
        encoder = _Encoder(self.chunk_bytes, {}, as_flax=True)
        encoder.out += (_map_head(3), _key(CHUNKED), self.pack(True), _key("shape"))
        encoder.mapping({str(axis): length for axis, length in enumerate(array.shape)})
        encoder.out += (_key("chunks"), _map_head(-(-array.size // size)))
        before = join(encoder.out)
        for index, start in enumerate(range(0, array.size, size)):
            count = min(size, array.size - start)
            yield before + _key(str(index)) + array_head(NDARRAY, (count,), array.dtype), count
            before = b""

    def run(self, state: dict[str, Any], run: AlikeRun) -> None:
        """A dict whose items differ in their arrays only: encode the first, and repeat it with the others' arrays."""
        if any(column[0].nbytes > self.chunk_bytes for column in run.columns.values()):
            return self.mapping(dict(zip(state, repeat_like(run), strict=True)))
        self.enter()
        encoder = _Encoder(self.chunk_bytes, {}, self.as_flax)
        encoder.depth = self.depth
        encoder.value(run.first)
        self.depth -= 1
        first = _joined_constants(encoder.out)
        count, width = len(state), 1 + len(first)
        many: list[Any] = [None] * (width * count)
        many[0::width] = packed_index_keys(count)[:count]
        for index, piece in enumerate(first, 1):
            many[index::width] = [piece] * count if type(piece) is bytes else run.columns[id(piece)]
        self.out.append(_map_head(count))
        self.out += many


@frozen
class Chunks:
    """The data of a lazy array, read when it is written, with a head before so many elements each."""

    heads: tuple[tuple[bytes, int], ...]
    array: LazyArray

    @property
    def nbytes(self) -> int:
        return self.array.nbytes + sum(len(head) for head, _ in self.heads)

    def pieces(self) -> Iterator[Piece]:
        """Raises ValueError for a source that gives other than what it announced: its head is written already."""
        heads, left, total = iter(self.heads), 0, 0
        for piece in self.array.pieces():
            piece = host_array(piece).reshape(-1)
            total += piece.size
            while self.heads and piece.size:
                if not left:
                    head, left = next(heads, (b"", piece.size))
                    yield head
                yield piece[:left]
                left, piece = max(0, left - piece.size), piece[left:]
            if piece.size:
                yield piece
        if total != self.array.size:
            raise ValueError(f"expected {self.array.size} elements, got {total}")


def _joined_constants(pieces: list[Piece]) -> list[Piece]:
    grouped = groupby(pieces, key=lambda piece: type(piece) is bytes)
    return [one for constant, group in grouped for one in ([join(list(group))] if constant else group)]


@lru_cache(4096)
def array_head(code: int, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> bytes:
    """All of an array's bytes before its data."""
    size = dtype.itemsize
    for length in shape:
        size *= length
    inner = b"".join([b"\x93", msgpack.packb(shape), msgpack.packb(dtype.name), _bin_head(size)])
    return _ext_head(len(inner) + size, code) + inner


def _extension(value: Any) -> Any:
    """What msgpack itself cannot write. Returning the value makes it raise its own TypeError."""
    if isinstance(value, np.generic):
        array = host_array(np.asarray(value))
        head = array_head(SCALAR, array.shape, array.dtype)
        return msgpack.ExtType(SCALAR, head[_ext_width(head) :] + array.tobytes())
    if isinstance(value, complex):
        return msgpack.ExtType(COMPLEX, msgpack.packb((value.real, value.imag)))
    if isinstance(value, (np.ndarray, jax.Array)):
        array = host_array(value)
        head = array_head(NDARRAY, array.shape, array.dtype)
        return msgpack.ExtType(NDARRAY, head[_ext_width(head) :] + array.tobytes())
    return value


@lru_cache(4096)
def _key(key: str) -> bytes:
    packed: bytes = msgpack.packb(key)
    return packed


def _map_head(count: int) -> bytes:
    return bytes([0x80 | count]) if count < 16 else _sized(count, None, 0xDE, 0xDF)


def _list_head(count: int) -> bytes:
    return bytes([0x90 | count]) if count < 16 else _sized(count, None, 0xDC, 0xDD)


def _bin_head(count: int) -> bytes:
    return _sized(count, 0xC4, 0xC5, 0xC6)


_FIXED_EXT: Final = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}


def _ext_head(count: int, code: int) -> bytes:
    head = bytes([_FIXED_EXT[count]]) if count in _FIXED_EXT else _sized(count, 0xC7, 0xC8, 0xC9)
    return head + bytes([code])


def _ext_width(head: bytes) -> int:
    return {0xC7: 3, 0xC8: 4, 0xC9: 6}.get(head[0], 2)


def _sized(count: int, byte: int | None, two: int, four: int) -> bytes:
    """A length after the first byte that says how wide it is."""
    if byte is not None and count < 2**8:
        return bytes([byte, count])
    if count < 2**16:
        return bytes([two]) + count.to_bytes(2, "big")
    if count < 2**32:
        return bytes([four]) + count.to_bytes(4, "big")
    raise ValueError(f"expected at most {2**32 - 1} in one MessagePack value, got {count}")
