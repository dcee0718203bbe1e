"""Runs: items of a sequence that differ in the contents of their arrays only, as the layers of a model do.

One item then stands for all: it is checked, written or read once, and the arrays of the others are handled as columns.
That is what makes 20,000 leaves cheap. Where items are not alike, nothing is lost but the speed.
"""

import enum
import operator
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import repeat
from typing import Any, Final, TypeVar

import attrs
import jax
import numpy as np

from treaty.runtime import _instances

_T = TypeVar("_T")

FEWEST: Final = 4  # shorter sequences are as fast one by one
_SCALARS: Final = (int, bool, str, bytes, type(None))


@attrs.frozen(eq=False)
class Run:
    """Items `start` to `start + count` of a sequence: the first, and per array in it the arrays of all."""

    start: int
    count: int
    first: Any
    columns: Mapping[int, list[Any]]  # by id of the array in `first`


class NotAlike(Exception):
    """Something else than the contents of arrays differs."""


def repeat_like(run: Run, first: Any = None) -> list[Any]:
    """All items of a run: `first` (or what was made of it), and copies of it that hold the arrays of the others."""
    return _repeat(run.first if first is None else first, run.columns, run.count)


def _repeat(first: Any, columns: Mapping[int, list[Any]], count: int) -> list[Any]:
    kind = type(first)
    if id(first) in columns:
        return columns[id(first)]
    if kind is dict:
        many = [_repeat(value, columns, count) for value in first.values()]
        return (
            [dict(zip(first, values, strict=True)) for values in zip(*many, strict=True)]
            if many
            else _each(dict, count)
        )
    if kind is list or kind is tuple:
        many = [_repeat(value, columns, count) for value in first]
        return [kind(values) for values in zip(*many, strict=True)] if many else _each(kind, count)
    if isinstance(first, tuple) and hasattr(kind, "_make"):
        many = [_repeat(value, columns, count) for value in first]
        return list(map(kind._make, zip(*many, strict=True))) if many else [first] * count
    if attrs.has(kind):
        return _instances.many(
            kind, {one.name: _repeat(getattr(first, one.name), columns, count) for one in attrs.fields(kind)}, count
        )
    if kind in _SCALARS or kind in (float, complex) or isinstance(first, (enum.Enum, np.generic)):
        return [first] * count
    raise NotAlike


def _each(make: Callable[[], Any], count: int) -> list[Any]:
    return [make() for _ in range(count)]


def columns_of(items: Sequence[Any]) -> dict[int, list[Any]]:
    """The arrays of alike items, on the host, by the id of the first item's; raises NotAlike."""
    columns: dict[int, list[Any]] = {}
    _gather(items[0], items, columns)
    return columns


def _gather(first: Any, many: Sequence[Any], columns: dict[int, list[Any]]) -> None:
    kind = type(first)
    if not all(map(operator.is_, map(type, many), repeat(kind))):
        raise NotAlike
    if kind is np.ndarray or isinstance(first, jax.Array):
        _add(first, many, columns)
    elif kind in (tuple, list) or (isinstance(first, tuple) and hasattr(kind, "_make")):
        if not all(map(len(first).__eq__, map(len, many))):
            raise NotAlike
        for index, value in enumerate(first):
            _gather(value, list(map(operator.itemgetter(index), many)), columns)
    elif kind is dict:
        keys = list(first)
        if not all(list(one) == keys for one in many):
            raise NotAlike
        for key, value in first.items():
            _gather(value, list(map(operator.itemgetter(key), many)), columns)
    elif attrs.has(kind):
        for field in attrs.fields(kind):
            _gather(getattr(first, field.name), list(map(operator.attrgetter(field.name), many)), columns)
    elif not (kind in _SCALARS or isinstance(first, enum.Enum)) or not all(map(operator.eq, many, repeat(first))):
        raise NotAlike


def _add(first: Any, many: Sequence[Any], columns: dict[int, list[Any]]) -> None:
    if id(first) in columns:  # one array in two places: their columns could not be told apart
        raise NotAlike
    if isinstance(first, jax.Array):
        if not isinstance(first.dtype, np.dtype) or not first.is_fully_addressable:
            raise NotAlike
        many = list(map(np.asarray, many))
    shape, dtype = many[0].shape, many[0].dtype
    same = all(map(operator.is_, map(_dtype_of, many), repeat(dtype))) or all(one.dtype == dtype for one in many)
    if not same or not all(map(operator.eq, map(_shape_of, many), repeat(shape))):
        raise NotAlike
    if not (dtype.isnative and dtype.names is None and not dtype.hasobject and many[0].flags.c_contiguous):
        raise NotAlike
    columns[id(first)] = list(many)


_shape_of = operator.attrgetter("shape")
_dtype_of = operator.attrgetter("dtype")


_sketch: ContextVar[dict[int, Run] | None] = ContextVar("_sketch", default=None)
_known: ContextVar["_Known | None"] = ContextVar("_known", default=None)


@attrs.frozen(eq=False)
class _Known:
    runs: Mapping[int, Sequence[Run]]
    build: bool


class Items(list[_T]):
    """The states of a sequence's items, and which of them are alike."""

    runs: Sequence[Run] = ()


@contextmanager
def sketching() -> Iterator[dict[int, Run]]:
    """While it lasts, sequences of alike items are written once; the dict says which, by the id of their state."""
    runs: dict[int, Run] = {}
    token = _sketch.set(runs)
    try:
        yield runs
    finally:
        _sketch.reset(token)


@contextmanager
def knowing(runs: Mapping[int, Sequence[Run]], *, build: bool = True) -> Iterator[None]:
    """While it lasts, of alike items only the first is read; without `build` it stands in for the others too."""
    token = _known.set(_Known(runs, build))
    try:
        yield
    finally:
        _known.reset(token)


def write_each(items: Sequence[Any], write: Callable[[Any], Any], keys: Sequence[str]) -> dict[str, Any]:
    """The states of items by key; where a sketch is wanted and they are alike, the first one's for all."""
    runs = _sketch.get()
    if runs is None or len(items) < FEWEST:
        return dict(zip(keys, map(write, items), strict=False))
    token = _sketch.set(None)
    try:
        columns = columns_of(items)
        first = _on_host(write(items[0]), columns)
    except NotAlike:
        pass
    else:
        state = dict.fromkeys(keys[: len(items)], first)
        runs[id(state)] = Run(0, len(items), first, {id(column[0]): column for column in columns.values()})
        return state
    finally:
        _sketch.reset(token)
    return dict(zip(keys, map(write, items), strict=False))


def _on_host(state: Any, columns: Mapping[int, list[Any]]) -> Any:
    if id(state) in columns:
        return columns[id(state)][0]
    if type(state) is dict:
        return {key: _on_host(value, columns) for key, value in state.items()}
    if isinstance(state, (np.ndarray, jax.Array)):  # made while writing, as the words of a key are
        raise NotAlike
    return state


def with_runs(items: list[_T], state: object) -> list[_T]:
    known = _known.get()
    runs = known and known.runs.get(id(state))
    if not runs:
        return items
    marked = Items(items)
    marked.runs = runs
    return marked


def read_each(read: Callable[[Any], _T], items: list[Any]) -> list[_T]:
    """Every item read; of alike items the first, and the others like it."""
    known = _known.get()
    if type(items) is not Items or known is None:
        return list(map(read, items))
    done: list[_T] = []
    for run in items.runs:
        done += map(read, items[len(done) : run.start])
        first = read(items[run.start])
        try:
            done += repeat_like(run, first) if known.build else [first] * run.count
        except NotAlike:
            done += map(read, items[run.start : run.start + run.count])
    return done + list(map(read, items[len(done) :]))
