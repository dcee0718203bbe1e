"""What this process knows of jax arrays that it has saved: they never change, so their checksums need not be made again.

The records go with their arrays. Arrays of numpy may change, and have none.
"""

import weakref
from typing import Any, TypeAlias

import jax
from attrs import field, frozen

Start: TypeAlias = tuple[int, ...]
ChunkKey: TypeAlias = tuple[Start, Start, str | None]  # its first element, its shape, its codec


@frozen
class ChunkDigests:
    """The digests of an array's chunks. It does not hold the array."""

    chunks: dict[ChunkKey, str] = field(factory=dict)


_records: dict[int, tuple["weakref.ref[Any]", ChunkDigests]] = {}


def record_of(array: Any) -> ChunkDigests | None:
    """The record of this very array, begun where there is none; None for what may change, or was deleted."""
    if not isinstance(array, jax.Array) or array.is_deleted():
        return None
    number = id(array)
    found = _records.get(number)
    if found is None or found[0]() is not array:
        found = weakref.ref(array, lambda gone: _forget(number, gone)), ChunkDigests()
        _records[number] = found
    return found[1]


def _forget(number: int, gone: object) -> None:
    found = _records.get(number)
    if found is not None and found[0] is gone:
        del _records[number]
