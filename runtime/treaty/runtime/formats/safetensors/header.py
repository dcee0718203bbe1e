"""The head of a safetensors file: eight bytes of length, then JSON of every tensor's dtype, shape and place.

Nothing in a header is trusted. The data must be the tensors and nothing else: no gap, no overlap, no rest. The library's
own reader is not used because its numpy table lacks bfloat16 and float8, it takes the last of duplicate names, and it
copies every tensor. A header as the library writes it is read by columns, twice as fast at 20,000 tensors
(`python -m benchmarks fast_paths`); any other tensor by tensor, which also says what is wrong.
"""

import json
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain, repeat
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError
from treaty.runtime.formats.shared.json_text import no_constant, parse_json, unique
from treaty.schema.dtypes import TABLE

_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
METADATA: Final = "__metadata__"
_FRONT: Final = f'{{"{METADATA}":{{'
MOST: Final = 100_000_000  # bytes of header; what the library takes
_ALIGN: Final = 64  # where JAX takes host memory as it is
_AXES: Final = 64  # numpy has no more
_ELEMENTS: Final = 2**59  # numpy has fewer, of the widest dtype
_FIELDS: Final = {"dtype", "shape", "data_offsets"}
_NUMBER: Final = "(0|[1-9][0-9]{0,17})"
_ROW: Final = re.compile(
    r'"([^"\\\x00-\x1f]*)":{"dtype":"([A-Z0-9_]+)","shape":(\[[0-9,]*\]),"data_offsets":\['
    rf"{_NUMBER},{_NUMBER}\]}},"
)
_FIXED: Final = len('"":{"dtype":"","shape":,"data_offsets":[,]},')
_quoted: Final = json.encoder.encode_basestring
_LENGTH: Final = struct.Struct("<Q")
_DTYPES: Final = {row.safetensors: row.numpy for row in TABLE if row.safetensors is not None}
_ITEMSIZES: Final = {name: dtype.itemsize for name, dtype in _DTYPES.items()}


class Columns(NamedTuple):
    """The tensors of a file, one column for each thing there is to say; `starts` count from the file's first byte."""

    names: Sequence[str]
    dtypes: Sequence["np.dtype[Any]"]
    shapes: Sequence[tuple[int, ...]]
    starts: Sequence[int]

    def views(self, data: Any) -> "dict[str, np.ndarray[Any, np.dtype[Any]]]":
        """The tensors as views of the file's bytes."""
        make: Callable[..., np.ndarray[Any, np.dtype[Any]]] = np.ndarray
        arrays = map(make, self.shapes, self.dtypes, repeat(data), self.starts)
        return dict(zip(self.names, arrays, strict=True))


class _TensorEntry(NamedTuple):
    """A tensor as the file has it: dtype by the format's name, and which bytes of the data."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def render(tensors: Mapping[str, tuple[str, tuple[int, ...]]], metadata: Mapping[str, str]) -> tuple[bytes, list[str]]:
    """The head for tensors of these dtypes and shapes, and the order of their data: wide ones first, so all align."""
    order = sorted(tensors, key=lambda name: -_ITEMSIZES[tensors[name][0]])
    sizes = {kind: math.prod(kind[1]) * _ITEMSIZES[kind[0]] for kind in set(tensors.values())}
    ends = [0, *accumulate(sizes[tensors[name]] for name in order)]
    places = {name: f"{start},{end}" for name, start, end in zip(order, ends, ends[1:], strict=False)}
    if METADATA in tensors:
        raise InvalidArgumentError(f"expected other names than {METADATA}, which the format reserves")
    about = {kind: f'{{"dtype":"{kind[0]}","shape":{_compact(kind[1])},"data_offsets":' for kind in sizes}
    rows = [f"{_quoted(name)}:{about[kind]}[{places[name]}]}}" for name, kind in tensors.items()]
    if metadata:
        rows.insert(0, f'"{METADATA}":{_compact(dict(metadata))}')
    try:
        text = f"{{{','.join(rows)}}}".encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"expected names and metadata that UTF-8 can hold, got {error}") from None
    text += b" " * (-(len(text) + _LENGTH.size) % _ALIGN)
    if len(text) > MOST:
        raise InvalidArgumentError(
            f"expected a header of at most {MOST} bytes, got {len(text)}; use fewer tensors a file"
        )
    return _LENGTH.pack(len(text)) + text, order


def parse(data: Any) -> tuple[Columns, dict[str, str]]:
    """The tensors of a file in their order, and its metadata."""
    if len(data) < _LENGTH.size:
        raise CorruptCheckpointError(f"expected 8 bytes with the length of the header, got {len(data)}")
    (length,) = _LENGTH.unpack(data[: _LENGTH.size])
    if length > min(MOST, len(data) - _LENGTH.size):
        room = len(data) - _LENGTH.size
        raise CorruptCheckpointError(f"expected a header of at most {min(MOST, room)} bytes, got {length}")
    start = _LENGTH.size + length
    text = bytes(data[_LENGTH.size : start])
    return _read_quickly(text, start, len(data)) or _read_strictly(text, start, len(data))


def _read_quickly(text: bytes, start: int, end: int) -> tuple[Columns, dict[str, str]] | None:
    """A header as the library writes it, by whole columns; None for one that is not, or not sound."""
    try:
        metadata, rows = _split(text.decode())
        found = _ROW.findall(rows)
        names, dtypes, shapes, starts, ends = zip(*found, strict=True)
        if sum(map(len, chain.from_iterable(found))) + _FIXED * len(found) != len(rows):  # something between the rows
            return None
        kinds = list(zip(dtypes, shapes, strict=True))
        known = {kind: _kind(*kind) for kind in set(kinds)}
        places = np.array([list(map(int, starts)), list(map(int, ends))], np.int64)
    except (ValueError, LookupError, RecursionError, CorruptCheckpointError):
        return None
    if len(set(names)) != len(names) or METADATA in names:
        return None
    rows_of = [known[kind] for kind in kinds]
    if not _fills(places[0], places[1], [size for _, _, size in rows_of], end - start):
        return None
    columns = Columns(
        names, [dtype for dtype, _, _ in rows_of], [shape for _, shape, _ in rows_of], (places[0] + start).tolist()
    )
    return columns, metadata


def _split(text: str) -> tuple[dict[str, str], str]:
    """The metadata in front, and the tensors, a comma after each."""
    text = text.rstrip(" ")
    metadata: dict[str, str] = {}
    at = 1
    if text.startswith(_FRONT):
        metadata, at = _DECODER.raw_decode(text, len(_FRONT) - 1)
        at += 1
    if text[:1] != "{" or text[-1:] != "}" or (metadata and text[at - 1] != ","):
        raise ValueError
    if not all(type(value) is str for value in metadata.values()):
        raise ValueError
    return metadata, f"{text[at:-1]},"


def _kind(dtype: str, shape: str) -> tuple["np.dtype[Any]", tuple[int, ...], int]:
    """What tensors of this dtype and this text for a shape have in common: also how many bytes."""
    sizes = json.loads(shape)
    count = _count(sizes)
    if count is None:
        raise ValueError
    return _DTYPES[dtype], tuple(sizes), count * _ITEMSIZES[dtype]


def _fills(starts: _Numbers, ends: _Numbers, sizes: list[int], total: int) -> bool:
    """Whether tensors of these sizes are where they say, one after the other, and nothing else is."""
    order = np.lexsort((ends, starts))
    starts, ends = starts[order], ends[order]
    adjoin = bool(ends[-1] == total) and np.array_equal(starts, np.append(0, ends[:-1]))
    return adjoin and np.array_equal(ends - starts, np.array(sizes, np.int64)[order])


def _read_strictly(text: bytes, start: int, end: int) -> tuple[Columns, dict[str, str]]:
    """Tensor by tensor, so that what is wrong can be said."""
    header = parse_json(text, "a header")
    metadata = header.pop(METADATA, None)
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CorruptCheckpointError(f"expected text by name, got something else at {METADATA}")
    tensors = {name: _stored(name, fields) for name, fields in header.items()}
    _check_places(tensors, end - start)
    rows = tensors.values()
    columns = Columns(
        list(tensors),
        [_DTYPES[one.dtype] for one in rows],
        [one.shape for one in rows],
        [start + one.start for one in rows],
    )
    return columns, metadata


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _stored(name: str, fields: Any) -> _TensorEntry:
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
    return _TensorEntry(dtype, tuple(shape), start, end)


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


def _check_places(tensors: Mapping[str, _TensorEntry], size: int) -> None:
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


_DECODER: Final = json.JSONDecoder(object_pairs_hook=unique, parse_constant=no_constant)
