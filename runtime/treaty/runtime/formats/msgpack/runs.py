"""Alike entries of a map: found by comparing bytes in columns, and read as one (see `_state.alike`).

That makes `from_bytes` into numpy 6 times as fast at 2,000 leaves, 8 times at 20,000. Entries with names of their own are copies of the
one before: 4 times as fast (`python -m benchmarks fast_paths`). Whatever looks different is read entry by entry, in `decode`.
"""

from functools import lru_cache
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from attrs import frozen

from treaty.runtime._state.alike import AlikeRun, repeat_like, spell
from treaty.runtime._state.numbering import index_keys
from treaty.runtime.formats.msgpack.arrays import MOST_AXES, ArrayReader, Damaged
from treaty.runtime.formats.msgpack.encode import CHUNKED, HostArray

Runs: TypeAlias = dict[int, list[AlikeRun]]  # by the id of the dict that holds them

FEWEST_ENTRIES: Final = 20  # in shorter maps all entries are as quick to read one by one
_FEWEST_ALIKE: Final = 8  # shorter runs are not worth one; of "0" to "9" there are ten
_FEWEST_SPELLED: Final = 64  # the same, where keys do not count
BEGINNING: Final = 16  # bytes by which a map of arrays is known: its first key, and the first array's size
_MOST_ARRAYS, _MOST_MAPS, _MOST_BYTES = 64, 256, 4096  # that are remembered of maps
_uint8 = np.dtype("uint8")
ELSEWHERE: Final = object()  # in the place of an item that is in a run: whoever takes it for one trips over it


@frozen
class _Body:
    """The bytes after the key of an entry: how many, those that alike entries share, and the arrays by where their data is."""

    size: int
    constants: tuple[tuple[int, bytes], ...]
    arrays: tuple[tuple[int, HostArray], ...]


class _Stretch(NamedTuple):
    """Alike entries in a row whose keys are of one width, so that they are of one length."""

    at: int
    width: int
    rows: int


class _Map(NamedTuple):
    """A map of nothing but arrays: its length, its bytes but for their data, and name, place, shape and dtype of each."""

    size: int
    constants: tuple[tuple[int, int, bytes], ...]
    arrays: tuple[tuple[str, int, int, tuple[int, ...], "np.dtype[Any]"], ...]


class RunReader(ArrayReader):
    def __init__(self, data: Any, runs: Runs | None) -> None:
        super().__init__(data)
        self.runs = runs
        self.maps: dict[bytes, _Map] = {}  # that were read, by how they begin

    def remember(self, state: dict[Any, Any], start: int, end: int, mark: int) -> None:
        """Keep the form of the last entry, if it is a small map of arrays: `copies` reads others like it without parsing them."""
        arrays, code, value = self.arrays[mark:], self.byte(start), next(reversed(state.values()))
        if type(value) is not dict or not 0xA0 <= code < 0xC0:
            return
        if not 0 < len(value) == len(arrays) <= _MOST_ARRAYS or len(self.maps) >= _MOST_MAPS or CHUNKED in value:
            return
        if not all(type(key) is str and value[key] is array[2] for key, array in zip(value, arrays, strict=True)):
            return
        body = self.body(start + 1 + (code & 31), end, mark)
        if (
            body is None
            or not len(body.constants[0][1]) >= BEGINNING
            or sum(map(_length, body.constants)) > _MOST_BYTES
        ):
            return
        constants = tuple((a, a + len(one), one) for a, one in body.constants)
        named = zip(value, body.arrays, strict=True)
        places = tuple((name, a, a + one.nbytes, one.shape, one.dtype) for name, (a, one) in named)
        self.maps[body.constants[0][1][:BEGINNING]] = _Map(body.size, constants, places)

    def alike(
        self, state: dict[Any, Any], start: int, end: int, mark: int, count: int
    ) -> tuple[int, int, list[AlikeRun]]:
        """Read on while entries are like the last one, at start:end, but for the key's text and the data of arrays.

        Returns how many there are with that one, where they end, and a list with their run, empty where they are few or
        were entered into the dict one by one.
        """
        code, index = self.byte(start), len(state) - 1
        body = self.body(start + 1 + (code & 31), end, mark) if 0xA0 < code < 0xC0 else None
        most = self.most(start, code & 31, index, count)
        rows = 1 if body is None else self.rows(body, start, code & 31, most, known=1)
        if body is None or rows < _FEWEST_ALIKE:
            return rows, end, []
        stretches = [_Stretch(start, code & 31, rows)]
        keys = self.counted(body, stretches[0], index)
        if keys is None and rows < _FEWEST_SPELLED:
            return rows, end, []
        if keys is None:
            keys, spelled = self.texts(body, stretches[0]), True
        else:
            keys, spelled = self.count_on(body, stretches, keys, index, count), self.runs is None
        found = self.run(state, keys, body, stretches, spelled)
        self.arrays[mark:] = [(start, start, None)]  # what holds a run is not repeated itself
        return len(keys), _end(stretches[-1], body), found

    def count_on(self, body: _Body, stretches: list[_Stretch], keys: list[str], index: int, count: int) -> list[str]:
        """Go on past "9" to "10": the same entries, with keys a byte longer."""
        while index + len(keys) < count and index + len(keys) == 10 ** stretches[-1].width:
            at, width = _end(stretches[-1], body), stretches[-1].width + 1
            rows = self.rows(body, at, width, min(count, 10**width) - index - len(keys), known=0)
            stretch = _Stretch(at, width, rows)
            more = self.counted(body, stretch, index + len(keys)) if rows else None
            if more is None:
                break
            keys = keys + more
            stretches.append(stretch)
        return keys

    def most(self, start: int, width: int, index: int, count: int) -> int:
        """How many entries may follow with keys of one width: where these count, no more than there are such numbers."""
        counts = self.data[start + 1 : start + 1 + width] == str(index).encode()
        return (min(count, 10**width) if counts else count) - index

    def body(self, start: int, end: int, mark: int) -> _Body | None:
        arrays = self.arrays[mark:]
        if any(one is None or one.ndim == MOST_AXES for _, _, one in arrays):
            return None
        edges = [start, *(edge for begin, stop, _ in arrays for edge in (begin, stop)), end]
        constants = ((a - start, bytes(self.view[a:b])) for a, b in zip(edges[0::2], edges[1::2], strict=True) if a < b)
        return _Body(end - start, tuple(constants), tuple((a - start, one) for a, _, one in arrays if one is not None))

    def rows(self, body: _Body, at: int, width: int, most: int, known: int) -> int:
        """How many entries from `at` on have this body and keys of this width; the first `known` are not looked at."""
        stride, inner = 1 + width + body.size, at + 1 + width
        limit = min(most, (self.size - at) // stride)
        next_one = inner + known * stride
        if limit <= known or any(self.view[next_one + a : next_one + a + len(one)] != one for a, one in body.constants):
            return known
        limit = self.same_rows(at, stride, limit, bytes([0xA0 | width]))
        done, block = known, 64 if known else limit  # blocks that grow: to try costs no more than what is won
        while done < limit:
            rows = min(limit, done + block) - done
            same = min(self.same_rows(inner + a + done * stride, stride, rows, one) for a, one in body.constants)
            if same < rows:
                return done + same
            done, block = done + rows, 16 * block
        return done

    def same_rows(self, at: int, stride: int, rows: int, constant: bytes) -> int:
        """How many rows begin with the constant."""
        size = len(constant)
        if self.column(at, stride, rows, np.dtype(f"V{size}"), ()).tobytes() == constant * rows:
            return rows
        bytewise = self.column(at, stride, rows, _uint8, (size,))
        same = (bytewise == np.frombuffer(constant, _uint8)).all(axis=1)
        return len(same) if same.all() else int(same.argmin())

    def run(
        self, state: dict[Any, Any], keys: list[str], body: _Body, stretches: list[_Stretch], spelled: bool
    ) -> list[AlikeRun]:
        """Enter alike entries, of which the first is there already, into the dict: spelled out, or as a run."""
        index, first = len(state) - 1, next(reversed(state.values()))
        columns = {id(one): self.views(offset, body, stretches, one) for offset, one in body.arrays}
        run = AlikeRun(index, len(keys), first, columns, of=state)
        if spelled:
            state.update(zip(keys, repeat_like(run), strict=True))
        elif index:
            state.update(zip(keys[1:], repeat(ELSEWHERE)))
        else:
            state.clear()
            state.update(_places(len(keys)))
            state[keys[0]] = first
        if len(state) != index + len(keys):
            raise Damaged("expected each key once, got some again", stretches[0].at)
        return [] if spelled else [run]

    def counted(self, body: _Body, stretch: _Stretch, index: int) -> list[str] | None:
        """The keys of a stretch, if they count on from `index`."""
        expected, joined = _counted_keys(index, stretch.rows)
        if len(expected[0]) != stretch.width or len(expected[-1]) != stretch.width:
            return None  # "9", "10" would pass for "91" and "0…"
        column = self.column(stretch.at + 1, _stride(stretch, body), stretch.rows, np.dtype(f"V{stretch.width}"), ())
        return expected if column.tobytes() == joined else None

    def texts(self, body: _Body, stretch: _Stretch) -> list[str]:
        starts = range(stretch.at + 1, _end(stretch, body) + 1, _stride(stretch, body))
        return [self.text(start, stretch.width)[0] for start in starts[: stretch.rows]]

    def column(self, at: int, stride: int, rows: int, dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> HostArray:
        """Arrays of one shape whose data begins `stride` bytes after that of the one before, as rows of one array."""
        strides = [dtype.itemsize]
        for length in reversed(shape[1:]):
            strides.insert(0, strides[0] * length)
        return np.ndarray((rows, *shape), dtype, self.view, at, (stride, *strides[: len(shape)]))

    def views(self, offset: int, body: _Body, stretches: list[_Stretch], first: Any) -> list[HostArray]:
        if not first.size:  # beside the 0, its other lengths times the rows could be over numpy's limit
            return [first] * sum(stretch.rows for stretch in stretches)
        found: list[HostArray] = []
        for stretch in stretches:
            shape = first.shape or (1,)
            start = stretch.at + 1 + stretch.width + offset
            column = self.column(start, _stride(stretch, body), stretch.rows, first.dtype, shape)
            found.extend(column if first.shape else (one.reshape(()) for one in column))
        found[0] = first
        return found

    def spelled(self, state: object) -> object:
        """A dict with all its items, where it holds runs."""
        found = self.runs.pop(id(state), None) if self.runs else None
        if found is None or not isinstance(state, dict):
            return state
        return dict(zip(state, spell(list(state.values()), found), strict=True))


def _counted_keys(start: int, count: int) -> tuple[list[str], bytes]:
    """Keys from `start` on, and their texts joined."""
    keys = index_keys(start + count)[start : start + count]
    return keys, "".join(keys).encode()


@lru_cache(8)  # of one model, mostly
def _places(count: int) -> dict[str, object]:
    """A dict of so many keys, never to be changed: to copy it is quicker than to fill another."""
    return dict.fromkeys(index_keys(count)[:count], ELSEWHERE)


def _length(constant: tuple[int, bytes]) -> int:
    return len(constant[1])


def _stride(stretch: _Stretch, body: _Body) -> int:
    return 1 + stretch.width + body.size


def _end(stretch: _Stretch, body: _Body) -> int:
    return stretch.at + stretch.rows * _stride(stretch, body)
