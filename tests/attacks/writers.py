"""A MessagePack writer that is not ours: any order of keys, any width of lengths, keys as bytes, floats of four bytes."""

import random
import struct
from typing import Any, Literal

import msgpack
import numpy as np
from attrs import frozen

Order = Literal["kept", "reversed", "sorted", "shuffled"]


@frozen
class Writer:
    order: Order = "kept"
    wide: bool = False
    bytes_keys: bool = False
    short_floats: bool = False
    seed: int = 0

    def write(self, tree: Any) -> bytes:
        if isinstance(tree, dict):
            entries = self._ordered(list(tree.items()))
            return self._head(0xDF, len(entries), tree) + b"".join(
                self._key(key) + self.write(value) for key, value in entries
            )
        if isinstance(tree, np.ndarray) or (isinstance(tree, np.generic) and not isinstance(tree, (float, complex))):
            return self._array(tree)
        if isinstance(tree, str) and self.wide:
            return b"\xdb" + struct.pack(">I", len(tree.encode())) + tree.encode()
        if isinstance(tree, bytes) and self.wide:
            return b"\xc6" + struct.pack(">I", len(tree)) + tree
        if isinstance(tree, int) and not isinstance(tree, bool) and self.wide and -(2**63) <= tree < 2**63:
            return b"\xd3" + struct.pack(">q", tree)
        if (
            isinstance(tree, float)
            and self.short_floats
            and struct.unpack(">f", struct.pack(">f", _bounded(tree)))[0] == tree
        ):
            return b"\xca" + struct.pack(">f", tree)
        if isinstance(tree, complex):
            return self._extension(2, b"\x92" + self.write(tree.real) + self.write(tree.imag))
        packed: bytes = msgpack.packb(tree)
        return packed

    def _ordered(self, entries: list[Any]) -> list[Any]:
        if self.order == "shuffled":
            random.Random(self.seed).shuffle(entries)
            return entries
        if self.order == "kept":
            return entries
        return sorted(entries, key=lambda entry: str(entry[0]), reverse=self.order == "reversed")

    def _key(self, key: str) -> bytes:
        return self.write(key.encode()) if self.bytes_keys else self.write(key)

    def _array(self, array: Any) -> bytes:
        code = 1 if isinstance(array, np.ndarray) else 3
        shape = b"\xdd" + struct.pack(">I", array.ndim) if self.wide else bytes([0x90 | array.ndim])
        shape += b"".join(map(self.write, array.shape))
        data = np.ascontiguousarray(array).tobytes()
        return self._extension(code, b"\x93" + shape + self.write(array.dtype.name) + self.write(data))

    def _extension(self, code: int, payload: bytes) -> bytes:
        if self.wide:
            return b"\xc9" + struct.pack(">Ib", len(payload), code) + payload
        packed: bytes = msgpack.packb(msgpack.ExtType(code, payload))
        return packed

    def _head(self, code: int, count: int, tree: Any) -> bytes:
        if self.wide:
            return bytes([code]) + struct.pack(">I", count)
        return bytes(msgpack.Packer().pack_map_header(count))


def _bounded(number: float) -> float:
    return number if abs(number) < 3e38 else 0.0
