"""MessagePack -> state dicts. Arrays are views of the given bytes; nothing in the bytes is trusted.

Written out here instead of calling msgpack because that copies every array, and cannot say where bytes are damaged.
Lengths are checked against what is left before anything is made from them, so no input can ask for much memory.
`entry` reads anything. Before it come shortcuts that stop where something is new to them: `known`, arrays with a head that
was seen, 4 times as fast; `copies` and `alike`, which `runs` tells of.
"""

from itertools import chain
from math import prod
from typing import Any, Final

import numpy as np

from treaty.runtime._errors import CorruptCheckpointError, show_path
from treaty.runtime._lazy import LazyArray, in_parts, pieces, release
from treaty.runtime._state.alike import AlikeRun
from treaty.runtime._trees import MAX_DEPTH
from treaty.runtime.formats.msgpack.arrays import MOST_AXES, NUMBERS, PREFIX, Damaged, shown
from treaty.runtime.formats.msgpack.encode import CHUNKED, COMPLEX, NDARRAY, SCALAR, HostArray
from treaty.runtime.formats.msgpack.runs import BEGINNING, FEWEST_ENTRIES, RunReader, Runs

_FIXED_EXT: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}


def decode(data: Any, runs: Runs | None = None, *, lazy: bool = False) -> Any:
    """The tree that all of `data` encodes.

    Where `lazy`, arrays that are stored in parts are lazy ones, and pages of a mapped file are not kept in memory.
    With `runs`, alike items of sequences are not spelled out: the first one stands in the place of each, and `runs`
    has the arrays of the others, by the id of the sequence's dict.
    """
    decoder = _Decoder(data, runs, lazy)
    try:
        value, end = decoder.value(0, 0)
    except Damaged as damage:
        raise CorruptCheckpointError(f"{damage} at byte {damage.at}, {show_path(tuple(damage.path))}") from None
    except RecursionError:  # the caller's own stack leaves no room for MAX_DEPTH levels
        raise CorruptCheckpointError("expected a tree that Python's stack has room for, got more levels") from None
    if end != decoder.size:
        raise CorruptCheckpointError(f"expected the end, got {decoder.size - end} more bytes at byte {end}, $")
    return value


class _Decoder(RunReader):
    def __init__(self, data: Any, runs: Runs | None, lazy: bool) -> None:
        super().__init__(data, runs)
        self.lazy = lazy
        self.lists = 0  # that the value is in: Flax takes no dict in one for an array in parts

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
        if code in NUMBERS:
            return self.number(at, code)
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

    def sequence(self, count: int, at: int, depth: int) -> tuple[list[Any], int]:
        self.enter(count, 1, at, depth)
        self.lists += 1
        items: list[Any] = []
        for index in range(count):
            try:
                item, at = self.value(at, depth + 1)
            except Damaged as damage:
                damage.path.insert(0, index)
                raise
            items.append(item)
        self.lists -= 1
        return items, at

    def enter(self, count: int, least: int, at: int, depth: int) -> None:
        if count * least > self.size - at:
            raise Damaged(f"expected {count} items, got {self.size - at} bytes", at)
        if depth >= MAX_DEPTH:
            raise Damaged(f"expected at most {MAX_DEPTH} levels, got more", at)

    def mapping(self, count: int, at: int, depth: int) -> tuple[Any, int]:
        self.enter(count, 2, at, depth)
        state: dict[Any, Any] = {}
        found: list[AlikeRun] = []
        # How many entries to read before looking for alike ones again: to look in vain costs time, and in a file that is
        # mapped it would bring all pages into memory.
        patience, most = (count, count) if self.lazy else (0, 4)
        while len(state) < count:
            start, mark, before = at, len(self.arrays), len(state)
            until = count if count < FEWEST_ENTRIES else min(count, before + max(1, patience))
            at = self.known(state, at, until)
            at = self.copies(state, at, until, depth) if at == start else at
            is_new = at == start
            at = self.entry(state, at, depth) if is_new else at
            end = at
            patience -= len(state) - before
            if patience < 0 and count - len(state) >= FEWEST_ENTRIES and mark < len(self.arrays):
                rows, at, run = self.alike(state, start, at, mark, count)
                found += run
                patience, most = (0, 4) if at > end else (max(rows - 1, most), min(2 * most, 64))
            if is_new and at == end and not self.lazy:
                self.remember(state, start, end, mark)
        if CHUNKED in state and not self.lists:
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
                seen = heads.get((count, bytes(data[start : start + PREFIX])))
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
                if self.lazy:
                    release(array)
        except (IndexError, UnicodeDecodeError):
            pass  # `entry` says what is wrong
        return at

    def copies(self, state: dict[Any, Any], at: int, until: int, depth: int) -> int:
        """Read entries while each is a short key and a map of arrays like one that was read before."""
        data, view, arrays = self.data, self.view, self.arrays
        try:
            while len(state) < until and depth + 1 < MAX_DEPTH:
                code = data[at]
                inner = at + 1 + (code & 31)
                like = self.maps.get(bytes(data[inner : inner + BEGINNING]))
                if like is None or not 0xA0 <= code < 0xC0 or inner + like.size > self.size:
                    break
                for a, b, constant in like.constants:  # any() would take as long again
                    if data[inner + a : inner + b] != constant:
                        return at
                key = str(data[at + 1 : inner], "utf-8")
                if key in state:
                    break
                state[key] = values = {}
                for name, a, b, shape, dtype in like.arrays:
                    values[name] = array = np.ndarray(shape, dtype, view, inner + a)
                    arrays.append((inner + a, inner + b, array))
                at = inner + like.size
        except (IndexError, UnicodeDecodeError):
            pass  # `entry` says what is wrong
        return at

    def entry(self, state: dict[Any, Any], start: int, depth: int) -> int:
        """Read one key and its value into the dict."""
        code = self.byte(start)
        key, at = self.text(start + 1, code & 31) if 0xA0 <= code < 0xC0 else self.value(start, depth + 1)
        if type(key) not in _KEYS and not _is_key(key):
            raise Damaged(f"expected a key, got a {type(key).__name__}", start)
        if key in state:
            raise Damaged(f"expected each key once, got {shown(key)} again", start)
        try:
            state[key], at = self.value(at, depth + 1)
        except Damaged as damage:
            damage.path.insert(0, _step(key))
            raise
        return at

    def unchunked(self, state: dict[Any, Any], at: int) -> "HostArray | LazyArray":
        """An array that was stored in parts: the one case where data is copied."""
        self.arrays.append((at, at, None))
        if set(state) != {CHUNKED, "shape", "chunks"}:
            raise Damaged(f"expected a chunked array, got the keys {shown(list(state))}", at)
        shape, parts = (_in_order(self.spelled(state[key])) for key in ("shape", "chunks"))
        if shape is None or len(shape) > MOST_AXES or not all(type(one) is int and one >= 0 for one in shape):
            raise Damaged("expected the shape of a chunked array, got something else", at)
        if not parts or not all(isinstance(part, np.ndarray) and part.ndim == 1 for part in parts):
            raise Damaged("expected the parts of a chunked array, got something else", at)
        size = sum(part.size for part in parts)
        if len({part.dtype for part in parts}) != 1 or size != prod(shape):
            raise Damaged(f"expected parts of one dtype for shape {shown(shape)}, got {size} elements", at)
        if self.lazy and size:
            return in_parts(tuple(shape), parts[0].dtype, lambda: chain.from_iterable(map(pieces, parts)))
        try:
            whole: HostArray = np.concatenate(parts).reshape(shape)
        except ValueError as error:  # lengths over numpy's limit beside a 0
            raise Damaged(f"expected a shape, got {shown(shape)} ({error})", at) from None
        whole.flags.writeable = False
        return whole

    def extension(self, at: int, code: int) -> tuple[Any, int]:
        if code in _FIXED_EXT:
            start, count = at + 1, _FIXED_EXT[code]
        elif code in (0xC7, 0xC8, 0xC9):
            start, count = self.length(at, code - 0xC7)
        else:
            raise Damaged("expected a value, got the byte 0xc1", at)
        kind, start = self.byte(start), start + 1
        end = start + self.room(start, count, "an extension")
        if kind == NDARRAY:
            array = self.array(start, end)
            if self.lazy:
                release(array)
            return array, end
        if kind == SCALAR:
            array = self.array(start, end)
            if array.shape:
                raise Damaged(f"expected a scalar, got the shape {list(array.shape)}", start)
            self.arrays.pop()
            return array[()], end
        if kind == COMPLEX:
            return self.complex_number(start, end), end
        raise Damaged(f"expected extension type 1, 2 or 3, got {kind - 256 if kind > 127 else kind}", at)

    def complex_number(self, start: int, end: int) -> complex:
        parts, at = [], start + 1
        while at < end and self.byte(start) == 0x92 and self.byte(at) in (0xCA, 0xCB):
            part, at = self.value(at, MAX_DEPTH)
            parts.append(part)
        if at != end or len(parts) != 2:
            raise Damaged("expected a complex number, got something else", start)
        return complex(*parts)


_KEYS: Final = (str, bytes, int, bool, type(None))
_OTHER_KEYS: Final = (float, np.integer, np.bool_, np.str_, np.bytes_)


def _is_key(key: Any) -> bool:
    """Keys that are found again. Of complex numbers many hash alike; numpy's other numbers warn when they are compared."""
    return isinstance(key, _OTHER_KEYS) and not isinstance(key, np.timedelta64) and bool(key == key)


def _in_order(state: object) -> list[Any] | None:
    """The values of {"0": …, "1": …}."""
    if type(state) is not dict or set(state) != {str(index) for index in range(len(state))}:
        return None
    return [state[str(index)] for index in range(len(state))]


def _step(key: Any) -> str | int:
    return key if type(key) is int or (type(key) is str and len(key) <= 80) else shown(key)
