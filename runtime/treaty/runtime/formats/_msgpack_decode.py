"""MessagePack -> state dicts. Arrays are views of the given bytes; nothing in the bytes is trusted.

Written out here instead of calling msgpack because that copies every array, and cannot say where bytes are damaged.
Lengths are checked against what is left before anything is made from them, so no input can ask for much memory.
"""

import mmap
import re
import struct
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from treaty.runtime._alike import Run, repeat_like
from treaty.runtime._errors import CorruptCheckpointError, show_path
from treaty.runtime._index import index_keys
from treaty.runtime.formats._msgpack_encode import CHUNKED, COMPLEX, NDARRAY, SCALAR, HostArray
from treaty.schema.dtypes import BY_NAME

Runs: TypeAlias = dict[int, list[Run]]

MAX_DEPTH: Final = 400  # far above any real tree, far below Python's own limit
_FEWEST_ALIKE: Final = 32  # comparing shorter runs costs more than reading them one by one
_PREFIX: Final = 8  # bytes that every head has
_FIXED_EXT: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_NUMBERS: Final = {
    code: struct.Struct(">" + format)
    for code, format in zip((0xCA, 0xCB, 0xCC, 0xCD, 0xCE, 0xCF, 0xD0, 0xD1, 0xD2, 0xD3), "fdBHIQbhiq", strict=True)
}
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}


def decode(data: Any, runs: Runs | None = None) -> Any:
    """The tree that all of `data` encodes.

    With `runs`, alike items of sequences are not spelled out: the first one stands in the place of each, and `runs`
    has the arrays of the others, by the id of the sequence's dict.
    """
    decoder = _Decoder(data, runs)
    try:
        value, end = decoder.value(0, 0)
    except _Damaged as damage:
        raise CorruptCheckpointError(f"{damage} at byte {damage.at}, {show_path(tuple(damage.path))}") from None
    except RecursionError:
        raise CorruptCheckpointError(f"expected at most {MAX_DEPTH} levels, got more") from None
    if end != decoder.size:
        raise CorruptCheckpointError(f"expected the end, got {decoder.size - end} more bytes at byte {end}, $")
    return value


class _Damaged(Exception):
    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at
        self.path: list[str | int] = []


class _Decoder:
    def __init__(self, data: Any, runs: Runs | None) -> None:
        self.view = memoryview(data).cast("B").toreadonly()
        self.data = data if isinstance(data, (bytes, mmap.mmap)) else self.view  # quicker to index than the view
        self.size = len(self.view)
        self.runs = runs
        self.arrays: list[tuple[int, int, HostArray | None]] = []  # where the data of arrays begins and ends, in order
        self.heads: dict[Any, tuple[bytes, Any, Any]] = {}  # heads of arrays, by their extension's size and their start

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        code = self.byte(at)
        if code < 0x80:
            return code, at + 1
        if code < 0x90:
            return self.mapping(code & 15, at + 1, depth)
        if code < 0xA0:
            return self.sequence(code & 15, at + 1, depth)
        if code < 0xC0:
            return self.text(at + 1, code & 31)
        if code >= 0xE0:
            return code - 256, at + 1
        if code in _CONSTANTS:
            return _CONSTANTS[code], at + 1
        if code in _NUMBERS:
            number = _NUMBERS[code]
            self.room(at, 1 + number.size, "a number")
            return number.unpack_from(self.view, at + 1)[0], at + 1 + number.size
        if code in (0xC4, 0xC5, 0xC6):
            start, count = self.length(at, code - 0xC4)
            return bytes(self.view[start : start + self.room(start, count, "bytes")]), start + count
        if code in (0xD9, 0xDA, 0xDB):
            return self.text(*self.length(at, code - 0xD9))
        if code in (0xDC, 0xDD):
            start, count = self.length(at, code - 0xDB)
            return self.sequence(count, start, depth)
        if code in (0xDE, 0xDF):
            start, count = self.length(at, code - 0xDD)
            return self.mapping(count, start, depth)
        return self.extension(at, code)

    def byte(self, at: int) -> int:
        if at >= self.size:
            raise _Damaged("expected a value, got the end of the data", at)
        found: int = self.data[at]
        return found

    def room(self, at: int, count: int, what: str) -> int:
        if count > self.size - at:
            raise _Damaged(f"expected {count} bytes of {what}, got {max(0, self.size - at)}", at)
        return count

    def length(self, at: int, width: int) -> tuple[int, int]:
        """Where a value begins whose length is stored in 1, 2 or 4 bytes, and that length."""
        start = at + 1 + (1 << width)
        self.room(at, start - at, "a length")
        return start, int.from_bytes(self.data[at + 1 : start], "big")

    def text(self, start: int, count: int) -> tuple[str, int]:
        end = start + self.room(start, count, "text")
        try:
            return str(self.data[start:end], "utf-8"), end
        except UnicodeDecodeError:
            raise _Damaged("expected UTF-8, got other bytes", start) from None

    def sequence(self, count: int, at: int, depth: int) -> tuple[list[Any], int]:
        self.enter(count, 1, at, depth)
        items: list[Any] = []
        for index in range(count):
            try:
                item, at = self.value(at, depth + 1)
            except _Damaged as damage:
                damage.path.insert(0, index)
                raise
            items.append(item)
        return items, at

    def enter(self, count: int, least: int, at: int, depth: int) -> None:
        if count * least > self.size - at:
            raise _Damaged(f"expected {count} items, got {self.size - at} bytes", at)
        if depth >= MAX_DEPTH:
            raise _Damaged(f"expected at most {MAX_DEPTH} levels, got more", at)

    def mapping(self, count: int, at: int, depth: int) -> tuple[Any, int]:
        self.enter(count, 2, at, depth)
        state: dict[Any, Any] = {}
        found: list[Run] = []
        patience = 0  # how many entries to let pass without looking for alike ones
        while len(state) < count:
            start, mark = at, len(self.arrays)
            at = self.known(state, at, count if count < _FEWEST_ALIKE else len(state) + 1)
            if at == start:
                at = self.entry(state, at, depth)
            patience -= 1
            if patience < 0 and count - len(state) >= _FEWEST_ALIKE and mark < len(self.arrays):
                rows = self.alike(start, at, mark, count - len(state))
                patience = max(rows - 1, 4)
                if rows >= _FEWEST_ALIKE:
                    found += self.repeated(state, start, at, mark, rows)
                    at, patience = start + rows * (at - start), 0
        if CHUNKED in state:
            return self.unchunked(state, at), at
        if found and self.runs is not None:
            self.runs[id(state)] = found
        return state, at

    def known(self, state: dict[Any, Any], at: int, until: int) -> int:
        """Read entries while each is a short key and an array whose head was seen before; `entry` reads all others."""
        data, heads = self.data, self.heads
        try:
            while len(state) < until:
                code = data[at]
                middle = at + 1 + (code & 31)
                kind = data[middle]
                if kind == 0xC7:
                    start, count = middle + 3, data[middle + 1]
                elif kind == 0xC8:
                    start, count = middle + 4, data[middle + 1] << 8 | data[middle + 2]
                elif kind == 0xC9:
                    start, count = middle + 6, int.from_bytes(data[middle + 1 : middle + 5], "big")
                else:
                    break
                seen = heads.get((count, bytes(data[start : start + _PREFIX])))
                if seen is None or data[start - 1] != NDARRAY or not 0xA0 <= code < 0xC0 or start + count > self.size:
                    break
                head, shape, dtype = seen
                begin = start + len(head)
                key = str(data[at + 1 : middle], "utf-8")
                if data[start:begin] != head or key in state:
                    break
                at = start + count
                state[key] = array = np.ndarray(shape, dtype, self.view, begin)
                self.arrays.append((begin, at, array))
        except (IndexError, UnicodeDecodeError):
            pass  # `entry` says what is wrong
        return at

    def entry(self, state: dict[Any, Any], start: int, depth: int) -> int:
        """Read one key and its value into the dict."""
        code = self.byte(start)
        key, at = self.text(start + 1, code & 31) if 0xA0 <= code < 0xC0 else self.value(start, depth + 1)
        try:
            if key in state:
                raise _Damaged(f"expected each key once, got {key!r} again", start)
        except TypeError:
            raise _Damaged(f"expected a key, got a {type(key).__name__}", start) from None
        try:
            read = self.value(at, depth + 1)
        except _Damaged as damage:
            damage.path.insert(0, key if type(key) in (str, int) else repr(key))
            raise
        state[key], at = read
        return at

    def alike(self, start: int, end: int, mark: int, left: int) -> int:
        """How many entries are like the one at start:end but for the text of the key and the data of arrays."""
        code, arrays, stride = self.byte(start), self.arrays[mark:], end - start
        if not 0xA0 < code < 0xC0 or any(one is None for _, _, one in arrays):
            return 1
        ends = [0, 1 + (code & 31), *(b - start for _, b, _ in arrays)]
        starts = [1, *(a - start for a, _, _ in arrays), stride]
        constants = [(a, b) for a, b in zip(ends, starts, strict=True) if a < b]
        limit = min(1 + left, (self.size - start) // stride)
        next_row = self.view[end : end + stride]
        if limit < 2 or any(next_row[a:b] != self.view[start + a : start + b] for a, b in constants):
            return 1
        done, block = 2, 64  # in growing blocks: trying costs no more than what is won
        while done < limit:
            upto = min(limit, done + block)
            same = np.ones(upto - done, bool)
            for a, b in constants:
                rows = self.column(start + done * stride + a, stride, upto - done, _uint8, (b - a,))
                same &= (rows == self.column(start + a, stride, 1, _uint8, (b - a,))).all(axis=1)
            if not same.all():
                return done + int(same.argmin())
            done, block = upto, 16 * block
        return done

    def repeated(self, state: dict[Any, Any], start: int, end: int, mark: int, rows: int) -> list[Run]:
        """Read entries that are like the last one, which is at start:end."""
        first, stride, index = next(reversed(state.values())), end - start, len(state) - 1
        columns = {id(one): self.views(a, stride, rows, one) for a, _, one in self.arrays[mark:]}
        self.arrays[mark:] = [(start, start, None)]  # what holds a run is not repeated itself
        run = Run(index, rows, first, columns)
        keys = self.keys(start + 1, stride, rows, self.byte(start) & 31, index)
        spelled = self.runs is None or keys != index_keys(index + rows)[index : index + rows]
        state.update(zip(keys, repeat_like(run), strict=True) if spelled else dict.fromkeys(keys, first))
        if len(state) != index + rows:
            raise _Damaged("expected each key once, got some again", start)
        return [] if spelled else [run]

    def keys(self, at: int, stride: int, rows: int, size: int, index: int) -> list[str]:
        """The texts of keys that begin a stride from each other; quick where they count on from `index`."""
        column = self.column(at, stride, rows, np.dtype(f"V{size}"), ())
        expected = index_keys(index + rows)[index : index + rows]
        if column.tobytes() == "".join(expected).encode():
            return expected
        return [self.text(at + row * stride, size)[0] for row in range(rows)]

    def column(self, at: int, stride: int, rows: int, dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> HostArray:
        """The arrays that begin a stride from each other, as one."""
        strides = [dtype.itemsize]
        for length in reversed(shape[1:]):
            strides.insert(0, strides[0] * length)
        return np.ndarray((rows, *shape), dtype, self.view, at, (stride, *strides[: len(shape)]))

    def views(self, at: int, stride: int, rows: int, first: Any) -> list[HostArray]:
        if first.shape:
            return [first, *self.column(at, stride, rows, first.dtype, first.shape)[1:]]
        return [first, *(one.reshape(()) for one in self.column(at, stride, rows, first.dtype, (1,))[1:])]

    def unchunked(self, state: dict[Any, Any], at: int) -> HostArray:
        """An array that was stored in parts: the one case where data is copied."""
        self.arrays.append((at, at, None))
        if set(state) != {CHUNKED, "shape", "chunks"}:
            raise _Damaged(f"expected a chunked array, got the keys {sorted(map(repr, state))}", at)
        shape, parts = (_in_order(state[key]) for key in ("shape", "chunks"))
        if shape is None or not all(type(length) is int and length >= 0 for length in shape):
            raise _Damaged("expected the shape of a chunked array, got something else", at)
        if not parts or not all(isinstance(part, np.ndarray) and part.ndim == 1 for part in parts):
            raise _Damaged("expected the parts of a chunked array, got something else", at)
        size = sum(part.size for part in parts)
        if len({part.dtype for part in parts}) != 1 or size != prod(shape):
            raise _Damaged(f"expected parts of one dtype for shape {shape}, got {size} elements", at)
        whole: HostArray = np.concatenate(parts).reshape(shape)
        whole.flags.writeable = False
        return whole

    def extension(self, at: int, code: int) -> tuple[Any, int]:
        if code in _FIXED_EXT:
            start, count = at + 1, _FIXED_EXT[code]
        elif code in (0xC7, 0xC8, 0xC9):
            start, count = self.length(at, code - 0xC7)
        else:
            raise _Damaged("expected a value, got the byte 0xc1", at)
        kind, start = self.byte(start), start + 1
        end = start + self.room(start, count, "an extension")
        if kind == NDARRAY:
            return self.array(start, end), end
        if kind == SCALAR:
            array = self.array(start, end)
            if array.shape:
                raise _Damaged(f"expected a scalar, got the shape {list(array.shape)}", start)
            self.arrays.pop()
            return array[()], end
        if kind == COMPLEX:
            parts, stop = self.value(start, MAX_DEPTH - 1)
            if stop != end or type(parts) is not list or [type(part) for part in parts] != [float, float]:
                raise _Damaged("expected a complex number, got something else", start)
            return complex(*parts), end
        raise _Damaged(f"expected extension type 1, 2 or 3, got {kind - 256 if kind > 127 else kind}", at)

    def array(self, start: int, end: int) -> HostArray:
        """[shape, dtype name, bytes] that must end where the extension does."""
        head, shape, dtype = self.head(start, end)
        array: HostArray = np.ndarray(shape, dtype, self.view, start + len(head))
        self.arrays.append((start + len(head), end, array))
        return array

    def head(self, start: int, end: int) -> tuple[bytes, Any, Any]:
        """What is before the data of an array, checked: its bytes, shape and dtype."""
        if self.byte(start) != 0x93:
            raise _Damaged("expected an array's shape, dtype and data, got something else", start)
        shape, at = self.value(start + 1, MAX_DEPTH - 1)
        if type(shape) is not list or not all(type(length) is int and length >= 0 for length in shape):
            raise _Damaged(f"expected a shape, got {_shown(shape)}", start + 1)
        name, at = self.value(at, MAX_DEPTH - 1)
        dtype = _dtype(name)
        if dtype is None:
            raise _Damaged(f"expected the name of a dtype, got {_shown(name)}", at)
        code = self.byte(at)
        if code not in (0xC4, 0xC5, 0xC6):
            raise _Damaged("expected the data of an array, got something else", at)
        data, count = self.length(at, code - 0xC4)
        if data + count != end or count != prod(shape) * dtype.itemsize:
            raise _Damaged(f"expected {prod(shape) * dtype.itemsize} bytes for {dtype}{shape}, got {count}", at)
        try:
            np.ndarray(shape, dtype, self.view, data)
        except (ValueError, OverflowError) as error:  # too many axes, or lengths over numpy's limit beside a 0
            raise _Damaged(f"expected a shape, got {_shown(shape)} ({error})", start + 1) from None
        found = (bytes(self.data[start:data]), tuple(shape), dtype)
        self.heads[end - start, found[0][:_PREFIX]] = found
        return found


_uint8 = np.dtype("uint8")
_dtypes: dict[str, "np.dtype[Any]"] = {name: one.numpy for name, one in BY_NAME.items()}
_OTHER_NAMES: Final = re.compile(r"float128|complex256|void\d{1,6}|(datetime|timedelta)64(\[\d{0,6}[A-Za-z]{1,3}\])?")


def _dtype(name: object) -> "np.dtype[Any] | None":
    """A dtype by the name that numpy gives it; never one that holds objects."""
    if type(name) is not str:
        return None
    if name not in _dtypes and _OTHER_NAMES.fullmatch(name):
        try:
            _dtypes[name] = np.dtype(name)
        except TypeError:
            return None
    return _dtypes.get(name)


def _in_order(state: object) -> list[Any] | None:
    """The values of {"0": …, "1": …}."""
    if type(state) is not dict or set(state) != {str(index) for index in range(len(state))}:
        return None
    return [state[str(index)] for index in range(len(state))]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
