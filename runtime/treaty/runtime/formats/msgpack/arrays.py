"""Arrays in MessagePack: the bytes of one value at a time, every length checked before it is believed."""

import mmap
import re
import struct
import sys
from math import prod
from typing import Any, Final

import numpy as np

from treaty.runtime.formats.msgpack.encode import HostArray
from treaty.schema.dtypes import BY_NAME

MOST_AXES: Final = 64  # numpy's limit
PREFIX: Final = 8  # bytes that every head has
NUMBERS: Final = {
    code: struct.Struct(">" + format)
    for code, format in zip((0xCA, 0xCB, 0xCC, 0xCD, 0xCE, 0xCF, 0xD0, 0xD1, 0xD2, 0xD3), "fdBHIQbhiq", strict=True)
}


class Damaged(Exception):
    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at
        self.path: list[str | int] = []


class ArrayReader:
    def __init__(self, data: Any) -> None:
        self.view = memoryview(data).cast("B").toreadonly()
        self.data = data if isinstance(data, (bytes, mmap.mmap)) else self.view  # quicker to index than the view
        self.size = len(self.view)
        self.arrays: list[tuple[int, int, HostArray | None]] = []  # where the data of arrays begins and ends, in order
        self.heads: dict[Any, tuple[bytes, Any, Any]] = {}  # heads of arrays, by their extension's size and their start

    def byte(self, at: int) -> int:
        if at >= self.size:
            raise Damaged("expected a value, got the end of the data", at)
        found: int = self.data[at]
        return found

    def room(self, at: int, count: int, what: str) -> int:
        if count > self.size - at:
            raise Damaged(f"expected {count} bytes of {what}, got {max(0, self.size - at)}", at)
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
            raise Damaged("expected UTF-8, got other bytes", start) from None

    def number(self, at: int, code: int) -> tuple[Any, int]:
        number = NUMBERS[code]
        self.room(at, 1 + number.size, "a number")
        return number.unpack_from(self.view, at + 1)[0], at + 1 + number.size

    def array(self, start: int, end: int) -> HostArray:
        """[shape, dtype name, bytes] that must end where the extension does."""
        head, shape, dtype = self.head(start, end)
        array: HostArray = np.ndarray(shape, dtype, self.view, start + len(head))
        if dtype.kind == "U":
            _check_text(array, start + len(head))
        self.arrays.append((start + len(head), end, None if dtype.kind == "U" else array))  # None is never repeated
        return array

    def head(self, start: int, end: int) -> tuple[bytes, Any, Any]:
        """What is before the data of an array, checked: its bytes, shape and dtype."""
        if self.byte(start) != 0x93:
            raise Damaged("expected an array's shape, dtype and data, got something else", start)
        shape, named = self.shape(start + 1)
        code = self.byte(named)
        if not 0xA0 <= code < 0xC0 and code not in (0xD9, 0xDA, 0xDB):
            raise Damaged("expected the name of a dtype, got something else", named)
        name, at = self.text(*((named + 1, code & 31) if code < 0xC0 else self.length(named, code - 0xD9)))
        dtype = _dtype(name)
        if dtype is None:
            raise Damaged(f"expected the name of a dtype, got {shown(name)}", named)
        code = self.byte(at)
        if code not in (0xC4, 0xC5, 0xC6):
            raise Damaged("expected the data of an array, got something else", at)
        data, count = self.length(at, code - 0xC4)
        if count != prod(shape) * dtype.itemsize:
            raise Damaged(f"expected {prod(shape) * dtype.itemsize} bytes for {dtype}{shape}, got {count}", at)
        if data + count != end:
            raise Damaged(f"expected an array that ends with its extension at {end}, got one up to {data + count}", at)
        try:
            np.ndarray(shape, dtype, self.view, data)
        except (ValueError, OverflowError) as error:  # too many axes, or lengths over numpy's limit beside a 0
            raise Damaged(f"expected a shape, got {shown(shape)} ({error})", start + 1) from None
        found = (bytes(self.data[start:data]), tuple(shape), dtype)
        if dtype.kind != "U":  # whose data is looked at each time
            self.heads[end - start, found[0][:PREFIX]] = found
        return found

    def shape(self, start: int) -> tuple[list[int], int]:
        code = self.byte(start)
        if 0x90 <= code < 0xA0:
            at, count = start + 1, code & 15
        elif code in (0xDC, 0xDD):
            at, count = self.length(start, code - 0xDB)
        else:
            raise Damaged("expected a shape, got something else", start)
        if count > MOST_AXES:  # before anything is multiplied: the product could have millions of digits
            raise Damaged(f"expected at most {MOST_AXES} axes, got {count}", start)
        shape = []
        for _ in range(count):
            code = self.byte(at)
            if code < 0x80:
                shape.append(code)
                at += 1
                continue
            if code not in NUMBERS and code < 0xE0:
                raise Damaged("expected a length, got something else", at)
            length, after = self.number(at, code) if code < 0xE0 else (code - 256, at + 1)
            if type(length) is not int or length < 0:
                raise Damaged(f"expected a length, got {length}", at)
            shape.append(length)
            at = after
        return shape, at


_dtypes: dict[str, "np.dtype[Any]"] = {name: one.numpy for name, one in BY_NAME.items()}
_OTHER_NAMES: Final = re.compile(r"float128|complex256|(datetime|timedelta)64(\[([1-9]\d{0,5})?[A-Za-z]{1,3}\])?")
_TEXT: Final = re.compile(r"(str|bytes)([1-9]\d{0,8})")  # with its size in bits; Flax writes these and reads none


def _dtype(name: str) -> "np.dtype[Any] | None":
    """A dtype by the name that numpy gives it; never one that holds objects."""
    if name not in _dtypes and (text := _TEXT.fullmatch(name)):
        letter, width = ("U", 32) if text[1] == "str" else ("S", 8)
        return None if int(text[2]) % width else np.dtype(f"{letter}{int(text[2]) // width}")
    if name not in _dtypes and _OTHER_NAMES.fullmatch(name):
        try:
            _dtypes[name] = np.dtype(name)
        except TypeError:
            return None
    return _dtypes.get(name)


def _check_text(array: HostArray, at: int) -> None:
    if array.size and array.reshape(-1).view(np.uint32).max() > sys.maxunicode:
        raise Damaged("expected text in UCS-4, got other numbers", at)


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
