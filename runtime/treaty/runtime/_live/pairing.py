"""Which leaf of an instance is which leaf of a live tree: decided by two structures, and kept for the next trees like them."""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from attrs import define, field, frozen
from jax.tree_util import PyTreeDef

from treaty.runtime._errors import Path
from treaty.runtime._live.forms import ABSENT, Absent, Form, FormNode, LeafSlot, StaticValue, form_of
from treaty.runtime._live.frameworks import Kinds
from treaty.runtime._live.memo import Memo

_Part: TypeAlias = Form | Absent


@frozen
class Unpaired:
    """What one of the two has where the other has something else: a leaf, or a static value of the instance."""

    path: Path
    shown: str
    of_obj: LeafSlot | StaticValue | None
    of_live: LeafSlot | None


@frozen
class StaticPair:
    """A static value of an instance that is a leaf of the live tree."""

    index: int
    value: object
    path: Path
    shown: str


@define(eq=False)
class LeafPairs:
    """Leaves by index, those that are static in the instance, and what does not fit."""

    of_live: list[int] = field(factory=list)
    of_obj: list[int] = field(factory=list)
    paths: list[Path] = field(factory=list)
    shown: list[str] = field(factory=list)
    static: list[StaticPair] = field(factory=list)
    unpaired: list[Unpaired] = field(factory=list)
    has_static_values: bool = False  # on either side: then the structures alone do not decide

    sources: list[int] | None = None  # for each live leaf that of the instance; None unless each has one

    def is_whole(self, obj_leaves: int) -> bool:
        """Whether the leaves of the live tree are all that an instance needs."""
        return not self.has_static_values and not self.unpaired and len(self.of_obj) == obj_leaves


_kept: Final = Memo[LeafPairs]()


def pairs(obj: object, obj_structure: PyTreeDef, live: object, structure: PyTreeDef, only: Kinds = ()) -> LeafPairs:
    """The pairs of two trees, whose structures these are.

    They are kept where the structures alone decide: two structures are equal whose static values are 0.0 and -0.0.
    """
    key = (obj_structure, structure, only)
    known = _kept.get(key)
    if known is not None:
        return known
    found = LeafPairs()
    _pair(form_of(obj, obj_structure), form_of(live, structure, only), (), "", found)
    if not found.static and not found.unpaired and len(found.of_live) == structure.num_leaves:
        by_live = dict(zip(found.of_live, found.of_obj, strict=True))
        found.sources = [by_live[index] for index in range(structure.num_leaves)]
    if not found.has_static_values and not found.unpaired:
        _kept.keep(key, found)
    return found


def _pair(obj: _Part, live: _Part, path: Path, shown: str, found: LeafPairs) -> None:
    found.has_static_values |= isinstance(obj, StaticValue) or isinstance(live, StaticValue)
    if isinstance(obj, StaticValue):
        opened = obj.opened() if isinstance(live, FormNode) else None
        if opened is not None:
            _pair(opened, live, path, shown, found)
        elif isinstance(live, LeafSlot):
            found.static.append(StaticPair(live.index, obj.value, path, shown))
        elif isinstance(live, FormNode):
            found.unpaired.extend(_differences(obj, live, path, shown))
    elif isinstance(obj, FormNode) and isinstance(live, FormNode):
        _pair_children(obj, live, path, found)
    elif isinstance(obj, LeafSlot) and isinstance(live, LeafSlot):
        found.of_live.append(live.index)
        found.of_obj.append(obj.index)
        found.paths.append(path)
        found.shown.append(shown)
    elif not isinstance(live, StaticValue):
        found.unpaired.extend(_differences(obj, live, path, shown))


def _pair_children(obj: FormNode, live: FormNode, path: Path, found: LeafPairs) -> None:
    """What a class does not declare stays as the live tree has it; a list or a dict declares all that may be in it."""
    for key, one in obj.items():
        other: _Part = live.get(key, ABSENT)
        if isinstance(other, Absent):
            other = live.attribute(key)
        at = (*path, _step(key, live))
        if isinstance(one, StaticValue) and obj.lists_all_items and isinstance(other, Absent):
            found.unpaired.append(Unpaired(at, live.shown, one, None))
        else:
            _pair(one, other, at, _shown(other, live.shown), found)
    for key, rest in live.items():
        if key not in obj and obj.declares(key):
            found.unpaired.extend(_differences(ABSENT, rest, (*path, _step(key, live)), ""))


def _differences(obj: _Part, live: _Part, path: Path, shown: str) -> Iterator[Unpaired]:
    """Nodes without leaves and None are nothing to each other; a leaf on either side has no partner on the other."""
    for at, leaf in _leaves(obj, path):
        yield Unpaired(at, shown, leaf, None)
    for at, leaf in _leaves(live, path):
        if isinstance(leaf, LeafSlot):
            yield Unpaired(at, leaf.shown, None, leaf)


def _leaves(form: _Part, path: Path) -> Iterator[tuple[Path, LeafSlot | StaticValue]]:
    if isinstance(form, FormNode):
        for key, one in form.items():
            yield from _leaves(one, (*path, _step(key, form)))
    elif isinstance(form, (LeafSlot, StaticValue)):
        yield path, form


def _step(key: str, node: FormNode) -> Any:
    return int(key) if isinstance(node.owner, (list, tuple)) and key.isdecimal() else key


def _shown(form: _Part, otherwise: str) -> str:
    return otherwise if form is None or isinstance(form, Absent) else form.shown
