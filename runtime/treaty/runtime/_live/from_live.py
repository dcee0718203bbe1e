"""`from_live`: an instance of a class from the tree that a program has."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs
import jax
from attrs import frozen
from jax.tree_util import PyTreeDef

from treaty.runtime._errors import Mismatch, StateMismatchError
from treaty.runtime._live.forms import Absent, Form, FormNode, form_of, place, slots
from treaty.runtime._live.frameworks import Kinds, has_variables, hidden, hides_arrays, kinds_of
from treaty.runtime._live.memo import Memo
from treaty.runtime._live.numbers import NUMBERS, as_array
from treaty.runtime._live.pairing import pairs
from treaty.runtime._live.report import flatten, live_mismatch
from treaty.runtime._live.state import StateFill
from treaty.runtime._state import instances
from treaty.runtime._state.arrays import is_array, is_key, transfer
from treaty.runtime._state.explain import explain, of_values
from treaty.runtime._state.registry import Codec, codec_of_class
from treaty.runtime._state.state_dict import build

_T = TypeVar("_T")
_UNDECLARED: Final = "declare a field for each array that has no such key, or hand over a tree without it"
_ONLY: Final = ", or only variables of some kinds: only=nnx.Param"
_SHARED: Final = "declare a variable that is in two places of the module in one of them"
_HIDDEN: Final = "JAX does not look into a module that is declared with pytree=False: hand over nnx.state(module)"


def from_live(cls: type[_T], tree: object, *, only: type | tuple[type, ...] = ()) -> _T:
    """An instance of `cls` with the very arrays of a tree: modules, dicts, optimizer states, or any of them in others.

    Leaves are matched with fields by key paths ([docs/live.md](live.md)); all that does not fit is raised at once. An array
    that the class does not declare is an error, any other leaf is passed over. Of nnx's variables, those of the kinds
    `only` count, such as nnx.Param; all where none is named.
    """
    codec: Codec[_T] = codec_of_class(cls)
    kinds = kinds_of(only)
    leaves, structure, again = flatten(tree)
    key = (codec, structure, kinds, tuple(again.items()))
    known = _recipes.get(key)
    made = None if known is None else known.build(leaves)
    if made is None:
        try:
            made, learned = _build(codec, tree, leaves, structure, kinds, again)
        except _LiveMisfit as misfit:
            raise misfit.told(tree, kinds) from None
        if learned is not None:
            _recipes.keep(key, learned)
    obj: _T = made
    return obj


@frozen(eq=False)
class _Recipe:
    """How to build the next instance from a tree of the same structure, if its leaves are as those which were checked."""

    structure: PyTreeDef
    order: list[int]  # of each leaf of the instance, the leaf of the tree
    arrays: list[int]  # leaves of the tree
    avals: list[Any]  # of these
    numbers: dict[int, Any]  # leaves of the instance that were numbers in the tree: the dtype
    others: dict[int, type]  # leaves of the instance that are no arrays
    undeclared: list[int]  # leaves of the tree

    def build(self, leaves: Sequence[Any]) -> Any:
        """An instance, or None where leaves are other than they were."""
        try:
            if [leaves[index].aval for index in self.arrays] != self.avals:
                return None
        except AttributeError:  # no array of JAX
            return None
        if any(type(leaves[self.order[index]]) is not kind for index, kind in self.others.items()):
            return None
        if any(is_array(leaves[index]) or hides_arrays(leaves[index]) for index in self.undeclared):
            return None
        made = [leaves[index] for index in self.order]
        for index, dtype in self.numbers.items():
            number = as_array(made[index], dtype) if type(made[index]) in NUMBERS else None
            if number is None or isinstance(number, Absent):
                return None
            made[index] = transfer([number])[0]
        return jax.tree.unflatten(self.structure, made)


_recipes: Final = Memo[_Recipe]()


def _build(
    codec: Codec[Any], tree: object, leaves: list[Any], structure: PyTreeDef, kinds: Kinds, again: Mapping[int, int]
) -> tuple[Any, _Recipe | None]:
    form = form_of(tree, structure, kinds)
    fill = StateFill(codec.schema, leaves, again)
    state = fill.state(form)
    try:
        if fill.twice:
            raise StateMismatchError(explain(codec.schema, state))
        obj = build(codec, state, {})
    except StateMismatchError as error:
        raise _LiveMisfit(error.mismatches, fill, form) from None
    made, obj_structure = jax.tree.flatten(obj)
    found = pairs(obj, obj_structure, tree, structure, kinds)
    sources = dict(zip(found.of_obj, found.of_live, strict=True))
    if any(is_key(leaves[index]) for index in found.of_live):  # a state dict has their words: take the keys themselves
        made = [
            leaves[sources[i]] if i in sources and is_key(leaves[sources[i]]) else one for i, one in enumerate(made)
        ]
        obj = jax.tree.unflatten(obj_structure, made)
    if not found.is_whole(len(made)) or not _comes_back(form_of(obj, obj_structure)):
        return obj, None
    undeclared = [slot.index for slot in slots(form) if slot.index not in fill.used and slot.index not in again]
    return obj, _recipe(obj_structure, made, leaves, sources, undeclared)


def _recipe(
    structure: PyTreeDef, made: list[Any], leaves: list[Any], sources: Mapping[int, int], undeclared: list[int]
) -> _Recipe | None:
    order = [sources[index] for index in range(len(made))]
    same = [one is leaves[source] for one, source in zip(made, order, strict=True)]
    arrays = [
        source for one, source, is_same in zip(made, order, same, strict=True) if is_same and hasattr(one, "aval")
    ]
    numbers = {
        index: made[index].dtype
        for index in range(len(made))
        if is_array(made[index]) and type(leaves[order[index]]) in NUMBERS
    }
    others = {
        index: type(made[index]) for index in range(len(made)) if same[index] and not hasattr(made[index], "aval")
    }
    if len(arrays) + len(numbers) + len(others) != len(made) or any(map(is_array, map(made.__getitem__, others))):
        return None  # arrays of the host, which have to be moved, abstract ones, and an int that stands for a float
    return _Recipe(structure, order, arrays, [leaves[index].aval for index in arrays], numbers, others, undeclared)


def _comes_back(form: Form | Absent) -> bool:
    """Whether JAX makes the same instance of its leaves again: no class runs code of its own, and dicts are in JAX's order."""
    if not isinstance(form, FormNode):
        return True
    cls: Any = type(form.owner)
    does_more: Callable[[Any], bool] = instances.does_more if attrs.has(cls) else instances.runs_own_code
    is_sorted = not isinstance(form.owner, dict) or list(form.owner) == sorted(form.owner)
    return is_sorted and not does_more(cls) and all(map(_comes_back, form.values()))


@attrs.define(eq=False, auto_exc=True)
class _LiveMisfit(Exception):
    """A state dict that was made of a live tree does not fit."""

    mismatches: Sequence[Mismatch]
    fill: StateFill
    form: Form | Absent

    def told(self, tree: object, kinds: Kinds) -> StateMismatchError:
        """The mismatches with their places in the live tree, and what to do about them."""
        found = [
            live_mismatch(of_values(one.expected), one.got, one.path, f"tree{place(self.form, one.path)}")
            for one in (*self.mismatches, *self.fill.twice)
        ]
        hints = []
        if any(one.expected.startswith("no such key") for one in found):
            hints.append(_UNDECLARED + (_ONLY if has_variables(tree) and not kinds else ""))
        if self.fill.twice:
            hints.append(_SHARED)
        if any(isinstance(leaf, hidden()) for leaf in self.fill.leaves):
            hints.append(_HIDDEN)
        return StateMismatchError(found, hints)
