"""The head of a safetensors file: eight bytes of length, then JSON of every tensor's dtype, shape and place.

Nothing in a header is trusted. The data must be the tensors and nothing else: no gap, no overlap, no rest. The library's
own reader is not used because its numpy table lacks bfloat16 and float8, it takes the last of duplicate names, and it
copies every tensor.
"""

import json
import math
import struct
from collections import Counter
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError
from treaty.schema.dtypes import TABLE

METADATA: Final = "__metadata__"
MOST: Final = 100_000_000  # bytes of header; what the library takes
_ALIGN: Final = 64  # where JAX takes host memory as it is
_AXES: Final = 64  # numpy has no more
_ELEMENTS: Final = 2**59  # numpy has fewer, of the widest dtype
_FIELDS: Final = {"dtype", "shape", "data_offsets"}
_LENGTH: Final = struct.Struct("<Q")
_DTYPES: Final = {row.safetensors: row.numpy for row in TABLE if row.safetensors is not None}
_ITEMSIZES: Final = {name: dtype.itemsize for name, dtype in _DTYPES.items()}


class Stored(NamedTuple):
    """A tensor as the file has it: dtype by the format's name, and which bytes of the data."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def render(tensors: Mapping[str, tuple[str, tuple[int, ...]]], metadata: Mapping[str, str]) -> tuple[bytes, list[str]]:
    """The head for tensors of these dtypes and shapes, and the order of their data: wide ones first, so all align."""
    order = sorted(tensors, key=lambda name: -_ITEMSIZES[tensors[name][0]])
    ends = 0
    places: dict[str, list[int]] = {}
    for name in order:
        dtype, shape = tensors[name]
        places[name] = [ends, ends + math.prod(shape) * _ITEMSIZES[dtype]]
        ends = places[name][1]
    header: dict[str, object] = {METADATA: dict(metadata)} if metadata else {}
    for name, (dtype, shape) in tensors.items():
        if name == METADATA:
            raise InvalidArgumentError(f"expected other names than {METADATA}, which the format reserves")
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": places[name]}
    try:
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"expected names and metadata that UTF-8 can hold, got {error}") from None
    text += b" " * (-(len(text) + _LENGTH.size) % _ALIGN)
    if len(text) > MOST:
        raise InvalidArgumentError(
            f"expected a header of at most {MOST} bytes, got {len(text)}; use fewer tensors a file"
        )
    return _LENGTH.pack(len(text)) + text, order


def parse(data: Any) -> tuple[dict[str, Stored], dict[str, str], int]:
    """The tensors of a file in their order, its metadata, and where the data begins."""
    if len(data) < _LENGTH.size:
        raise CorruptCheckpointError(f"expected 8 bytes with the length of the header, got {len(data)}")
    (length,) = _LENGTH.unpack(data[: _LENGTH.size])
    if length > min(MOST, len(data) - _LENGTH.size):
        room = len(data) - _LENGTH.size
        raise CorruptCheckpointError(f"expected a header of at most {min(MOST, room)} bytes, got {length}")
    start = _LENGTH.size + length
    header = parse_json(bytes(data[_LENGTH.size : start]), "a header")
    metadata = header.pop(METADATA, None)
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CorruptCheckpointError(f"expected text by name, got something else at {METADATA}")
    tensors = {name: _stored(name, fields) for name, fields in header.items()}
    _check_places(tensors, len(data) - start)
    return tensors, metadata, start


def parse_json(text: bytes, what: str) -> dict[str, Any]:
    """A JSON object in which no object has a key twice."""
    if text[:1] != b"{":
        raise CorruptCheckpointError(f"expected {what} that begins with '{{', got {text[:1]!r}")
    try:
        found: dict[str, Any] = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except CorruptCheckpointError:
        raise
    except (ValueError, RecursionError) as error:  # ValueError: no JSON, no UTF-8, or a number without end
        raise CorruptCheckpointError(f"expected {what} in JSON, got {error}") from None
    return found


def view(stored: Stored, data: Any, start: int) -> "np.ndarray[Any, np.dtype[Any]]":
    """The tensor as a view of the file's bytes."""
    return np.ndarray(stored.shape, _DTYPES[stored.dtype], data, start + stored.start)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise CorruptCheckpointError(f"expected each name once, got {twice!r} again")
    return found


def _no_constant(name: str) -> object:
    raise CorruptCheckpointError(f"expected JSON, got {name}")


def _stored(name: str, fields: Any) -> Stored:
    if not isinstance(fields, dict) or not fields.keys() >= _FIELDS:
        raise CorruptCheckpointError(f"expected dtype, shape and data_offsets, got something else at {name!r}")
    dtype, shape, place = fields["dtype"], fields["shape"], fields["data_offsets"]
    if type(dtype) is not str or dtype not in _DTYPES:
        raise CorruptCheckpointError(f"expected one of {', '.join(_DTYPES)}, got {_short(dtype)} at {name!r}")
    count = _count(shape)
    if count is None:
        raise CorruptCheckpointError(f"expected a shape, got {_short(shape)} at {name!r}")
    if not _is_place(place):
        raise CorruptCheckpointError(f"expected data_offsets [begin, end], got {_short(place)} at {name!r}")
    start, end = place
    if end - start != count * _ITEMSIZES[dtype]:
        needed = count * _ITEMSIZES[dtype]
        raise CorruptCheckpointError(
            f"expected {needed} bytes for {dtype}{_short(shape)}, got {end - start} at {name!r}"
        )
    return Stored(dtype, tuple(shape), start, end)


def _is_place(place: Any) -> bool:
    return type(place) is list and [type(one) for one in place] == [int, int] and 0 <= place[0] <= place[1]


def _count(shape: Any) -> int | None:
    """How many elements a shape has; None if it is none, or one that numpy could not hold even beside a 0."""
    if type(shape) is not list or len(shape) > _AXES:
        return None
    count = 1
    for size in shape:
        if type(size) is not int or size < 0:
            return None
        count *= size or 1
    if count >= _ELEMENTS:
        return None
    return 0 if 0 in shape else count


def _check_places(tensors: Mapping[str, Stored], size: int) -> None:
    end = 0
    for one in sorted(tensors.values(), key=attrgetter("start", "end")):
        if one.start != end:
            name = next(name for name, other in tensors.items() if other is one)
            what = "a gap" if one.start > end else "an overlap"
            raise CorruptCheckpointError(f"expected data from byte {end} on, got {what} at byte {one.start}, {name!r}")
        end = one.end
    if end != size:
        raise CorruptCheckpointError(f"expected {end} bytes of data, got {size}")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
