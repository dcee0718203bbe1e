"""Runs: items of a sequence that differ in the contents of their arrays only, as the layers of a model do.

One item then stands for all: it is checked, written or read once, and the arrays of the others are handled as columns.
That makes `to_bytes` 7 times as fast at 2,000 leaves and at 20,000 (`python -m benchmarks fast_paths`). Where items are not alike,
nothing is lost but the speed: `attempt` raises NotAlike, and its caller goes item by item.
"""

import enum
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar, copy_context
from itertools import repeat
from typing import Any, Final, ParamSpec, TypeVar

import attrs
import jax
import numpy as np

from treaty.runtime._state import instances
from treaty.runtime._state.arrays import Misfit
from treaty.schema import TreatyError

_T = TypeVar("_T")
_V = TypeVar("_V")
_P = ParamSpec("_P")

FEWEST: Final = 8  # shorter sequences are as fast one by one
_SCALARS: Final = (int, bool, str, bytes, type(None))


@attrs.frozen(eq=False)
class AlikeRun:
    """Items `start` to `start + count` of a sequence: the first, and for each array in it those of all items in its place."""

    start: int
    count: int
    first: Any
    columns: Mapping[int, list[Any]]  # by id of the array in `first`
    of: Any  # the dict of the sequence. Runs are looked up by its id: while it is kept, no other dict can have that


class NotAlike(Exception):
    """The shortcut gives up: something else than the contents of arrays differs, or may differ. The plain way is next."""


# Errors that generated code may raise because one item stands for all. They prove nothing about the data: the caller goes
# item by item, and a real error comes up again there.
_TRIPPED: Final = (Misfit, TreatyError, TypeError, AttributeError, LookupError, ValueError, RuntimeError)


def attempt(work: Callable[[], _T]) -> _T:
    """The one entrance: what `work` gives by way of runs, or NotAlike. Nothing is swallowed that the plain way would not meet."""
    try:
        return work()
    except RecursionError:  # a RuntimeError
        raise
    except _TRIPPED as error:
        raise NotAlike from error


def repeat_like(run: AlikeRun, first: Any = None) -> list[Any]:
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
    if attrs.has(kind) and not instances.does_more(kind):
        return instances.many(
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
    if kind is np.ndarray or isinstance(first, jax.Array):
        return _add(first, many, columns)
    if not _all_of(kind, many):
        raise NotAlike
    if attrs.has(kind):
        for column in instances.columns(kind)(many):
            _gather(column[0], column, columns)
    elif kind in (tuple, list) or (isinstance(first, tuple) and hasattr(kind, "_make")):
        if len(set(map(len, many))) != 1:
            raise NotAlike
        for index, value in enumerate(first):
            _gather(value, list(map(operator.itemgetter(index), many)), columns)
    elif kind is dict:
        keys = list(first)
        kinds = list(map(type, keys))  # True == 1
        if not all(list(one) == keys and list(map(type, one)) == kinds for one in many):
            raise NotAlike
        for key, value in first.items():
            _gather(value, list(map(operator.itemgetter(key), many)), columns)
    else:
        same = operator.is_ if isinstance(first, enum.Enum) else operator.eq if kind in _SCALARS else _never
        if not all(map(same, many, repeat(first))):
            raise NotAlike


def _never(one: object, other: object) -> bool:
    return False


def _add(first: Any, many: Sequence[Any], columns: dict[int, list[Any]]) -> None:
    if id(first) in columns:  # one array in two places: their columns could not be told apart
        raise NotAlike
    if isinstance(first, jax.Array):
        if not isinstance(first.dtype, np.dtype) or not first.is_fully_addressable or not _all_of(type(first), many):
            raise NotAlike
        many = list(map(np.asarray, many))
    shape, dtype = many[0].shape, many[0].dtype
    alike = [one.shape == shape and one.dtype is dtype for one in many]
    if not _all_of(np.ndarray, many) or not all(alike):
        raise NotAlike  # or equal dtypes that are two objects, which is rare
    if not (dtype.isnative and dtype.names is None and not dtype.hasobject and many[0].flags.c_contiguous):
        raise NotAlike
    columns[id(first)] = list(many)


def _all_of(kind: type, many: Sequence[Any]) -> bool:
    return set(map(type, many)) == {kind}


_sketch: ContextVar[dict[int, AlikeRun] | None] = ContextVar("_sketch", default=None)
_known: ContextVar["_KnownRuns | None"] = ContextVar("_known", default=None)


@attrs.frozen(eq=False)
class _KnownRuns:
    runs: Mapping[int, Sequence[AlikeRun]]
    build: bool
    read: set[int]  # the runs of which all items were made

    def spell(self, state: Mapping[str, Any]) -> list[Any]:
        """The states of all items, of which some are in runs."""
        self.read.add(id(state))
        return spell(list(state.values()), self.runs[id(state)])


class Items(list[_T]):
    """The states of a sequence's items, of each run only the first: `read_each` makes the others of what it read."""

    state: Mapping[str, Any]  # that they are from

    def __iter__(self) -> Iterator[_T]:
        known = _known.get()
        return iter(known.spell(self.state)) if known is not None and known.build else super().__iter__()


def spell(items: list[Any], runs: Sequence[AlikeRun]) -> list[Any]:
    """The items with those of runs in their places."""
    for run in runs:
        items[run.start : run.start + run.count] = repeat_like(run)
    return items


def sketching(write: Callable[[], _T]) -> tuple[_T, dict[int, AlikeRun]]:
    """What `write` gives, with only the first of alike items written; and the runs, by the id of the sequence's dict."""
    runs: dict[int, AlikeRun] = {}
    return _within(_sketch, runs, write), runs


def checking(runs: Mapping[int, AlikeRun], read: Callable[[], object]) -> None:
    """Run a reader for its checks alone: the first of alike items stands for the others."""
    _within(_known, _KnownRuns({state: [run] for state, run in runs.items()}, False, set()), read)


def reading(runs: Mapping[int, Sequence[AlikeRun]], read: Callable[[], _T]) -> _T:
    """What `read` gives, of alike items only the first being read; NotAlike if some run was never asked for."""
    known = _KnownRuns(runs, True, set())
    obj = _within(_known, known, read)
    if known.read != runs.keys():
        raise NotAlike
    return obj


def _within(variable: ContextVar[_V], value: _V, function: Callable[[], _T]) -> _T:
    """Call with a variable set, in a context of its own: a Ctrl-C before a `finally` would leave it set."""
    context = copy_context()
    context.run(variable.set, value)
    return context.run(function)


def write_each(items: Sequence[Any], write: Callable[[Any], Any] | None, keys: Sequence[str]) -> dict[str, Any]:
    """The states of items by key; where a sketch is wanted and they are alike, the first one's for all."""
    runs = _sketch.get()
    if runs is None or len(items) < FEWEST:
        return dict(zip(keys, map(write, items) if write else items, strict=False))
    token = _sketch.set(None)
    try:
        columns = columns_of(items)
        first = _on_host(write(items[0]) if write else items[0], columns)
    except NotAlike:
        pass
    else:
        state = dict.fromkeys(keys[: len(items)], first)
        by_id = {id(column[0]): column for column in columns.values()}
        runs[id(state)] = AlikeRun(0, len(items), first, by_id, of=state)
        return state
    finally:
        _sketch.reset(token)
    return dict(zip(keys, map(write, items) if write else items, strict=False))


def written_out(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `write_each` gave, item by item: for whoever puts the items into another dict, of which no run is known."""
    run = (_sketch.get() or {}).pop(id(state), None)
    return state if run is None else dict(zip(state, repeat_like(run), strict=True))


def _on_host(state: Any, columns: Mapping[int, list[Any]]) -> Any:
    if id(state) in columns:
        return columns[id(state)][0]
    if type(state) is dict:
        return {key: _on_host(value, columns) for key, value in state.items()}
    if isinstance(state, (np.ndarray, jax.Array)):  # made while writing, as the words of a key are
        raise NotAlike
    return state


def items_of(state: Mapping[str, _T], keys: Sequence[str]) -> list[_T]:
    """The states of a sequence's items in the order of the keys."""
    known = _known.get()
    if known is None or id(state) not in known.runs:
        return [state[key] for key in keys[: len(state)]]
    run, keys = known.runs[id(state)][0], keys[: len(state)]
    if run.count == len(state):
        items = Items([run.first] * run.count)
    elif list(state) == keys:
        items = Items(state.values())
    else:  # counted at first, and then not
        return list(map(dict(zip(state, known.spell(state), strict=True)).__getitem__, keys))
    items.state = state
    return items


def read_each(read: Callable[[Any], _T], items: list[Any]) -> list[_T]:
    """Every item read; of alike items the first, and the others like it."""
    known = _known.get()
    if type(items) is not Items or known is None:
        return list(map(read, items))
    known.read.add(id(items.state))
    done: list[_T] = []
    for run in known.runs[id(items.state)]:
        done += map(read, items[len(done) : run.start])
        first = read(items[run.start])
        done += _others(read, run, first) if known.build else [first] * run.count
    return done + list(map(read, items[len(done) :]))


def _others(read: Callable[[Any], _T], run: AlikeRun, first: _T) -> list[_T]:
    try:
        return repeat_like(run, first)
    except NotAlike:  # what a reader made is not only a copy: a class's own `__init__` had a hand in it
        return list(map(read, repeat_like(run)))


def entries_of(state: Mapping[str, _T]) -> Mapping[str, _T]:
    """A dict with all its items, for whoever does not know of runs."""
    known = _known.get()
    if known is None or not known.build or id(state) not in known.runs:
        return state
    return dict(zip(state, known.spell(state), strict=True))


def spelled(state: Any) -> Any:
    """A subtree without declared types, all of whose dicts have all their items."""
    known = _known.get()
    if known is None or not known.runs or type(state) is not dict:
        return state
    return {key: spelled(value) for key, value in entries_of(state).items()}


def whole(make: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function of the user, which wants to see all items: not to be run while one stands for others."""

    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        known = _known.get()
        if known is not None and not known.build:
            raise NotAlike
        return make(*args, **kwargs)

    return checked
