"""Alike leaves as one row: `$.layers[0..47].kernel`, in tables and on the page of a report.

Neighbours whose keys count, and below which all is of the same form, are a run: two or more of them, or four where each is
a leaf, since three values are as well read one by one.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias

from treaty.runtime._errors import show_keys

Path: TypeAlias = tuple[str, ...]

_FEWEST_NODES: Final = 2
_FEWEST_LEAVES: Final = 4
_COUNTED: Final = re.compile(r"(.*?)([0-9]+)([^0-9]*)", re.DOTALL)


class Row(NamedTuple):
    """`leaves` are the numbers of those that it stands for; of a sum, all that is below."""

    path: str
    leaves: tuple[int, ...]
    is_sum: bool = False


class Branch:
    """A node. Those of one `form` are alike with all below them."""

    __slots__ = ("below", "form", "leaf")

    def __init__(self) -> None:
        self.below: dict[str, Branch] = {}
        self.leaf: int | None = None
        self.form = -1

    def runs(self) -> Iterator[list[str]]:
        """The keys below: those of a run together, and each other by itself."""
        run: list[str] = []
        for key in _counted(self):
            if run and not _goes_on(self, run[-1], key):
                yield from _closed(self, run)
                run = []
            run.append(key)
        yield from _closed(self, run)


def folded(paths: Sequence[Path], form: Callable[[int], str], depth: int | None = None, root: Path = ()) -> list[Row]:
    """The leaves with these paths as rows. `form` says of a leaf what alike ones have in common; below `depth` there are sums."""
    return list(_rows([branches(paths, form)], show_keys(root), depth))


def branches(paths: Sequence[Path], form: Callable[[int], str]) -> Branch:
    """The tree of these paths; a leaf is the number of its path."""
    top = Branch()
    for number, path in enumerate(paths):
        node = top
        for key in path:
            below = node.below.get(key)
            if below is None:
                below = node.below[key] = Branch()
            node = below
        node.leaf = number
    _give_forms(top, form, {})
    return top


def each(paths: Sequence[Path], root: Path = ()) -> list[Row]:
    """One row for each leaf, in order."""
    return [Row(show_keys((*root, *path)), (number,)) for number, path in enumerate(paths)]


def step_shown(run: Sequence[str]) -> str:
    """Keys as paths have them: `.blocks`, `[3]`, `['a.b']`; those of a run as `[0..47]`."""
    if len(run) == 1:
        return show_keys(tuple(run))[1:]
    first, last = _parts(run[0]), _parts(run[-1])
    assert first is not None
    assert last is not None
    return f"{first[0]}{first[1]}..{last[1]}{first[2]}"


def _give_forms(node: Branch, form: Callable[[int], str], known: dict[object, int]) -> None:
    found: list[object] = [None if node.leaf is None else form(node.leaf)]
    for key, one in node.below.items():
        _give_forms(one, form, known)
        found += (key, one.form)
    node.form = known.setdefault(tuple(found), len(known))


def _rows(alike: list[Branch], shown: str, depth: int | None) -> Iterator[Row]:
    """Of nodes of one form, each at the same place in an item of its own."""
    first = alike[0]
    if depth == 0 and first.below:
        yield Row(shown, tuple(leaf for node in alike for leaf in _leaves(node)), is_sum=True)
        return
    if first.leaf is not None:
        yield Row(shown, tuple(node.leaf for node in alike if node.leaf is not None))
    for run in first.runs():
        below = [node.below[key] for node in alike for key in run]
        yield from _rows(below, shown + step_shown(run), None if depth is None else depth - 1)


def _leaves(node: Branch) -> Iterator[int]:
    if node.leaf is not None:
        yield node.leaf
    for one in node.below.values():
        yield from _leaves(one)


def _closed(node: Branch, run: list[str]) -> Iterator[list[str]]:
    if not run:
        return
    is_worth_it = len(run) >= (_FEWEST_NODES if node.below[run[0]].below else _FEWEST_LEAVES)
    yield from [run] if is_worth_it else ([key] for key in run)


def _counted(node: Branch) -> Iterator[str]:
    """Formats without an order give 1, 10, 2: those of one name stand together, and are put in the order of their numbers."""
    for name, group in groupby(node.below, _name):
        keys = list(group)
        yield from keys if name is None else sorted(keys, key=_number)


def _goes_on(node: Branch, last: str, key: str) -> bool:
    return (
        _name(key) is not None
        and _name(key) == _name(last)
        and _number(key) == _number(last) + 1
        and node.below[key].form == node.below[last].form
    )


def _name(key: str) -> tuple[str, str] | None:
    """What stands around the number of a key."""
    found = _parts(key)
    return None if found is None else (found[0], found[2])


def _number(key: str) -> int:
    found = _parts(key)
    assert found is not None
    return int(found[1][:18])


@lru_cache(2**16)
def _parts(key: str) -> tuple[str, str, str] | None:
    found = _COUNTED.fullmatch(show_keys((key,))[1:])
    return None if found is None else (found[1], found[2], found[3])
