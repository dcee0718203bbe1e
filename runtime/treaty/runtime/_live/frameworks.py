"""What must be known of Flax and equinox: boxes around arrays, variables in two places, settings. Only a program that imports them has any."""

import dataclasses
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import jax
import numpy as np
from attrs import frozen

from treaty.schema import TreatyError

Kinds: TypeAlias = tuple[type, ...]

_PLAIN: Final = (jax.Array, np.ndarray, np.generic, bool, int, float, complex, str, bytes, type(None))


def refuse_circles(tree: object) -> bool:
    """Refuse nnx modules that contain themselves, directly or by others: JAX would follow them for ever.

    It gives up with a RecursionError, after which Python has no stack left in that thread. Returns whether the tree may
    have variables, which may be in it twice.
    """
    return bool(hidden()) and _search(tree, _Insides(hidden()))


def _search(tree: object, insides: "_Insides") -> bool:
    """Walk along whatever a module may be in, or have in it; whether anything was met but containers of arrays and values."""
    around: set[int] = set()
    done: set[int] = set()
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if type(node) is _Left:
            around.discard(node.module)
            done.add(node.module)
            continue
        inside = insides[type(node)]
        if inside is None or id(node) in done:
            continue
        children = inside(node)
        if inside is _attributes:
            if id(node) in around:
                raise TreatyError(
                    f"expected a tree that ends, got {type(node).__name__}, which contains itself; "
                    "of such a module hand over nnx.state(module)"
                )
            around.add(id(node))
            waiting.append(_Left(id(node)))
        if not insides.leaves.issuperset(map(type, children)):  # most dicts have nothing but arrays
            waiting += [one for one in children if insides[type(one)] is not None]
    return _attributes in insides.values() or not all(issubclass(cls, _PLAIN) for cls in insides.leaves)


@frozen
class _Left:
    """Marks on the stack where a module ends."""

    module: int


class _Insides(dict[type, Callable[[Any], Collection[Any]] | None]):
    """How to list what is in an object of a type; None of the types in `leaves`, which have no modules in them."""

    def __init__(self, modules: Kinds) -> None:
        super().__init__()
        self.leaves: set[type] = set()
        self._modules = modules

    def __missing__(self, cls: type) -> Callable[[Any], Collection[Any]] | None:
        found: Callable[[Any], Collection[Any]] | None = None
        if issubclass(cls, dict):
            found = dict.values
        elif issubclass(cls, (list, tuple)):
            found = _itself
        elif issubclass(cls, self._modules) or dataclasses.is_dataclass(cls):
            found = _attributes
        else:
            self.leaves.add(cls)
        self[cls] = found
        return found


def _itself(items: Any) -> Any:
    return items


def _attributes(node: object) -> Collection[Any]:
    return getattr(node, "__dict__", {}).values()


def variables() -> Kinds:
    """nnx's Variable, for isinstance."""
    return _named("flax.nnx", "Variable")


def boxes() -> Kinds:
    """What may hold one value and metadata of it: the value then stands where the box stands."""
    return (*variables(), *_named("flax.core.meta", "AxisMetadata"))


def hidden() -> Kinds:
    """What JAX counts as a leaf if it is declared with pytree=False, whatever it holds."""
    return _named("flax.nnx", "Pytree") or _named("flax.nnx", "Object")


def hides_arrays(leaf: object) -> bool:
    """Whether a leaf is such a module with variables, which would be lost with it."""
    return isinstance(leaf, hidden()) and bool(jax.tree.leaves(sys.modules["flax.nnx"].state(leaf)))


def modules() -> Kinds:
    """Whose plain values are settings, and no state: equinox's modules, where those of nnx are no leaves at all."""
    return _named("equinox", "Module")


def kinds_of(only: object) -> Kinds:
    """The argument `only`, checked."""
    kinds = only if isinstance(only, tuple) else (only,)
    for kind in kinds:
        if not (isinstance(kind, type) and variables() and issubclass(kind, variables())):
            raise TreatyError(
                f"only={kind!r}: expected a subclass of nnx.Variable, or a tuple of them, such as nnx.Param"
            )
    return kinds


def has_variables(tree: object) -> bool:
    return next(_variables_of(tree), None) is not None


def in_variables(tree: object) -> set[int]:
    """The indices of leaves that can be updated in place."""
    return {index for _, indices in _variables_of(tree) for index in indices}


def repeats(tree: object, leaves: Sequence[object]) -> dict[int, int]:
    """The leaves of variables that were met before: their indices, and those of the same leaves there.

    JAX flattens a variable in two places twice, and forgets that it is one.
    """
    if len(set(map(id, leaves))) == len(leaves):
        return {}
    first: dict[int, range] = {}
    found: dict[int, int] = {}
    for variable, indices in _variables_of(tree):
        if id(variable) in first:
            found |= zip(indices, first[id(variable)], strict=True)
        first.setdefault(id(variable), indices)
    return found


def update_variables(tree: object, leaves: Mapping[int, object]) -> None:
    """Give variables new leaves, which are known by their indices in the tree."""
    for variable, indices in list(_variables_of(tree)):
        if any(index in leaves for index in indices):
            old, structure = jax.tree.flatten(variable)
            new = [leaves.get(index, leaf) for index, leaf in zip(indices, old, strict=True)]
            variable.update_from_state(jax.tree.unflatten(structure, new))


def rebuilt(node: Any, leaves: Iterator[object], made: dict[int, object]) -> Any:
    """The tree with other leaves, in which each variable and module is one object, wherever it stands."""
    kinds = (*variables(), *hidden())
    if id(node) in made:
        list(islice(leaves, len(jax.tree.leaves(node))))
        return made[id(node)]
    parts, structure = jax.tree.flatten(node, is_leaf=lambda one: one is not node and isinstance(one, kinds))
    if parts and parts[0] is node:  # declared with pytree=False, it is a leaf to JAX
        return next(leaves)
    new = jax.tree.unflatten(
        structure, [rebuilt(one, leaves, made) if isinstance(one, kinds) else next(leaves) for one in parts]
    )
    if isinstance(node, kinds):
        made[id(node)] = new
    return new


def _variables_of(tree: object) -> Iterator[tuple[Any, range]]:
    """Each variable, as often as it is there, and the indices of its leaves among those of the tree."""
    kinds, index = variables(), 0
    for one in jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, kinds)):
        is_variable = isinstance(one, kinds)
        count = len(jax.tree.leaves(one)) if is_variable else 1
        if is_variable:
            yield one, range(index, index + count)
        index += count


def _named(module: str, name: str) -> Kinds:
    found = getattr(sys.modules.get(module), name, None)
    return (found,) if isinstance(found, type) else ()
