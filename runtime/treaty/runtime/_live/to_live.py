"""`to_live` and `update_live`: the leaves of an instance in a tree like the one that a program has."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import jax
from attrs import frozen

from treaty.runtime._errors import Mismatch, Path
from treaty.runtime._live.forms import PLAIN, Absent, LeafSlot
from treaty.runtime._live.frameworks import hidden, in_variables, rebuilt, update_variables
from treaty.runtime._live.numbers import in_form_of
from treaty.runtime._live.pairing import LeafPairs, Unpaired, pairs
from treaty.runtime._live.report import flatten, live_mismatch, refuse
from treaty.runtime._state.explain import describe

_T = TypeVar("_T")
_IN_PLACE: Final = "only variables of nnx can be updated in place; to_live makes a new tree"


def to_live(obj: object, like: _T) -> _T:
    """A tree like `like` with the leaves of an instance: the very arrays, where shapes and dtypes are those of `like`.

    What the class of `obj` does not declare is taken from `like`, whose arrays may be abstract. Variables of nnx that
    `like` has in two places stay one.
    """
    leaves, structure, again = flatten(like)
    own, own_structure = jax.tree.flatten(obj)
    found = pairs(obj, own_structure, like, structure)
    if found.sources is not None and not again:
        made = [own[index] for index in found.sources]
        if _are_alike(made, leaves):
            return cast(_T, jax.tree.unflatten(structure, made))
    made = list(leaves)
    for index, value in _new_leaves(found, own, leaves, again, "like").items():
        made[index] = value
    for index, first in again.items():
        made[index] = made[first]
    tree: _T = rebuilt(like, iter(made), {}) if again else jax.tree.unflatten(structure, made)
    return tree


def update_live(live: object, obj: object) -> None:
    """Put the leaves of an instance into nnx modules and optimizers, or into a tree of them, in place.

    Nothing is changed where something does not fit.
    """
    leaves, structure, again = flatten(live)
    own, own_structure = jax.tree.flatten(obj)
    found = pairs(obj, own_structure, live, structure)
    new = _new_leaves(found, own, leaves, again, "live")
    inside = in_variables(live)
    outside = [
        live_mismatch("a variable of nnx", describe(leaves[index]), path, f"live{shown}")
        for index, path, shown in zip(found.of_live, found.paths, found.shown, strict=True)
        if index not in inside
    ]
    refuse(outside, [_IN_PLACE])
    update_variables(live, new)


def _new_leaves(
    found: LeafPairs, own: Sequence[Any], leaves: Sequence[Any], again: Mapping[int, int], name: str
) -> dict[int, Any]:
    """The leaves of an instance by their indices in the live tree, of a variable in two places the first; all checked."""
    values, others = [own[index] for index in found.of_obj], [leaves[index] for index in found.of_live]
    new = dict(zip(found.of_live, map(in_form_of, values, others), strict=True))
    new |= {one.index: in_form_of(one.value, leaves[one.index]) for one in found.static}
    wrong = _Wrong(own, leaves, name)
    refuse(
        [
            *(wrong.unpaired(one) for one in found.unpaired if not _is_passed_over(one, leaves)),
            *wrong.leaves(found, values, new),
            *wrong.static(found, new),
            *wrong.twice(found, again),
        ]
    )
    return {again.get(index, index): value for index, value in new.items()} if again else new


def _is_passed_over(one: Unpaired, leaves: Sequence[Any]) -> bool:
    """Whether it is what from_live passes over too: an item of a list that nothing can store, such as a function."""
    if one.of_obj is not None or one.of_live is None:
        return False
    leaf = leaves[one.of_live.index]
    return not hasattr(leaf, "shape") and not isinstance(leaf, (*PLAIN, *hidden()))


def _are_alike(values: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether all are arrays of JAX of the same shapes and dtypes, as most are; that is told in a fraction of the time."""
    try:
        return [one.aval for one in values] == [one.aval for one in others]
    except AttributeError:
        return False


@frozen
class _Wrong:
    """What is said of leaves that do not fit."""

    own: Sequence[Any]
    live: Sequence[Any]
    name: str

    def unpaired(self, one: Unpaired) -> Mismatch:
        obj = one.of_obj
        value = self.own[obj.index] if isinstance(obj, LeafSlot) else None if obj is None else obj.value
        expected = "nothing" if one.of_live is None else describe(self.live[one.of_live.index])
        return self._mismatch(expected, "nothing" if obj is None else describe(value), one.path, one.shown)

    def leaves(self, found: LeafPairs, values: Sequence[Any], new: Mapping[int, Any]) -> Iterator[Mismatch]:
        for index, value, path, shown in zip(found.of_live, values, found.paths, found.shown, strict=True):
            if isinstance(new[index], Absent):
                yield self._mismatch(describe(self.live[index]), describe(value), path, shown)

    def static(self, found: LeafPairs, new: Mapping[int, Any]) -> Iterator[Mismatch]:
        for one in found.static:
            if isinstance(new[one.index], Absent):
                yield self._mismatch(describe(self.live[one.index]), describe(one.value), one.path, one.shown)

    def twice(self, found: LeafPairs, again: Mapping[int, int]) -> Iterator[Mismatch]:
        """Fields that would give one variable two values."""
        seen: set[int] = set()
        for index, path, shown in zip(found.of_live, found.paths, found.shown, strict=True) if again else ():
            first = again.get(index, index)
            if first in seen:
                yield live_mismatch("one field for a variable in two places", "another", path, f"{self.name}{shown}")
            seen.add(first)

    def _mismatch(self, expected: str, got: str, path: Path, shown: str) -> Mismatch:
        return live_mismatch(f"{expected} as in {self.name}", got, path, f"{self.name}{shown}")
