"""Alike entries of a map: read as one, with the data of their arrays as columns (see `_state.alike`)."""

from typing import Any, TypeAlias

import numpy as np

from treaty.runtime._state.alike import Run, repeat_like
from treaty.runtime._state.index import index_keys
from treaty.runtime.formats._msgpack_arrays import MOST_AXES, ArrayReader, Damaged
from treaty.runtime.formats._msgpack_encode import HostArray

Runs: TypeAlias = dict[int, list[Run]]  # by the id of the dict that holds them

_uint8 = np.dtype("uint8")


class RunReader(ArrayReader):
    def __init__(self, data: Any, runs: Runs | None) -> None:
        super().__init__(data)
        self.runs = runs

    def alike(self, start: int, end: int, mark: int, left: int) -> int:
        """How many entries are like the one at start:end but for the text of the key and the data of arrays."""
        code, arrays, stride = self.byte(start), self.arrays[mark:], end - start
        if not 0xA0 < code < 0xC0 or any(one is None or one.ndim == MOST_AXES for _, _, one in arrays):
            return 1
        ends = [0, 1 + (code & 31), *(b - start for _, b, _ in arrays)]
        starts = [1, *(a - start for a, _, _ in arrays), stride]
        constants = [(a, b) for a, b in zip(ends, starts, strict=True) if a < b]
        limit = min(1 + left, (self.size - start) // stride)
        next_row = self.view[end : end + stride]
        if limit < 2 or any(next_row[a:b] != self.view[start + a : start + b] for a, b in constants):
            return 1
        limit = _first_other(self.column(start, stride, limit, _uint8, ()), code)  # longer keys begin another run
        done, block = 2, 64  # in growing blocks: trying costs no more than what is won
        while done < limit:
            rows = min(limit, done + block) - done
            same = min(self.same_rows(start + a, stride, done, rows, b - a) for a, b in constants)
            if same < rows:
                return done + same
            done, block = done + rows, 16 * block
        return done

    def same_rows(self, at: int, stride: int, skip: int, rows: int, size: int) -> int:
        """How many of the rows after the first `skip` begin with the bytes of the first row."""
        first = bytes(self.view[at : at + size])
        column = self.column(at + skip * stride, stride, rows, np.dtype(f"V{size}"), ())
        if column.tobytes() == first * rows:
            return rows
        bytewise = self.column(at + skip * stride, stride, rows, _uint8, (size,))
        return _first_other((bytewise == np.frombuffer(first, _uint8)).all(axis=1), True)

    def repeated(self, state: dict[Any, Any], start: int, end: int, mark: int, rows: int) -> list[Run]:
        """Read entries that are like the last one, which is at start:end."""
        first, stride, index = next(reversed(state.values())), end - start, len(state) - 1
        columns = {id(one): self.views(a, stride, rows, one) for a, _, one in self.arrays[mark:]}
        self.arrays[mark:] = [(start, start, None)]  # what holds a run is not repeated itself
        run = Run(index, rows, first, columns, of=state)
        keys = self.keys(start + 1, stride, rows, self.byte(start) & 31, index)
        spelled = self.runs is None or keys != index_keys(index + rows)[index : index + rows]
        state.update(zip(keys, repeat_like(run), strict=True) if spelled else dict.fromkeys(keys, first))
        if len(state) != index + rows:
            raise Damaged("expected each key once, got some again", start)
        return [] if spelled else [run]

    def keys(self, at: int, stride: int, rows: int, size: int, index: int) -> list[str]:
        """The texts of keys that begin a stride from each other; quick where they count on from `index`."""
        column = self.column(at, stride, rows, np.dtype(f"V{size}"), ())
        expected = index_keys(index + rows)[index : index + rows]
        same_width = len(expected[0]) == len(expected[-1]) == size  # "9", "10" would pass for "91" and "0…"
        if same_width and column.tobytes() == "".join(expected).encode():
            return expected
        return [self.text(at + row * stride, size)[0] for row in range(rows)]

    def column(self, at: int, stride: int, rows: int, dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> HostArray:
        """The arrays that begin a stride from each other, as one."""
        strides = [dtype.itemsize]
        for length in reversed(shape[1:]):
            strides.insert(0, strides[0] * length)
        return np.ndarray((rows, *shape), dtype, self.view, at, (stride, *strides[: len(shape)]))

    def views(self, at: int, stride: int, rows: int, first: Any) -> list[HostArray]:
        if not first.size:  # its other lengths times the rows could be over numpy's limit
            return [first] * rows
        if first.shape:
            return [first, *self.column(at, stride, rows, first.dtype, first.shape)[1:]]
        return [first, *(one.reshape(()) for one in self.column(at, stride, rows, first.dtype, (1,))[1:])]

    def spelled(self, state: object) -> object:
        """A dict with all its items, where it holds runs."""
        found = self.runs.pop(id(state), None) if self.runs else None
        if found is None or not isinstance(state, dict):
            return state
        values = list(state.values())
        for run in found:
            values[run.start : run.start + run.count] = repeat_like(run)
        return dict(zip(state, values, strict=True))


def _first_other(column: HostArray, value: int) -> int:
    """Where in a column something else than the value stands first; its length, where nothing does."""
    same = column == value
    return len(column) if same.all() else int(same.argmin())
