"""States of optax by the classes of `treaty.schema.library.optax`: subtrees shaped like the params are type arguments."""

import typing
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar

import attrs
import jaxtyping
from attrs import evolve, frozen

from treaty.generator._scaffold.sized import Shapes, Sized, SizedItems, SizedLeaf, SizedNode, SizedTwin
from treaty.schema import ir
from treaty.schema._leaves import array
from treaty.schema.library import optax as library

_Parts: TypeAlias = Mapping[str, "int | ir.Type"]  # by key: the number of a type variable, or what the class declares

_CHAINS: Final = {  # of the members of a tuple; the last is the learning rate's
    "Adam": ("AdamState", None),
    "AdamW": ("AdamState", "EmptyState", None),
    "Lion": ("LionState", "EmptyState", None),
    "Sgd": ("TraceState", None),
}
_RATES: Final = ("EmptyState", "ScheduleState")
_KNOWN_BY_KEYS: Final = ("AdamState", "TraceState")  # of checkpoints, which have no class names


def with_twins(sized: Sized, shapes: Shapes, *, by_keys: bool = False, without: frozenset[str] = frozenset()) -> Sized:
    """The tree with classes of the library where they fit. `by_keys` where nodes have lost their classes; `without` some."""
    return _Twinning(shapes, by_keys, without).tree(sized)


@frozen
class _Twinning:
    shapes: Shapes
    by_keys: bool
    without: frozenset[str]

    def tree(self, sized: Sized) -> Sized:
        if isinstance(sized, SizedItems):
            return evolve(sized, item=self.tree(sized.item), each=tuple(map(self.tree, sized.each)))
        if not isinstance(sized, SizedNode):
            return sized
        node = evolve(sized, children={key: self.tree(child) for key, child in sized.children.items()})
        if node.container == "tuple":
            return self._chain(node)
        for name in self._candidates(node):
            if name not in self.without and (args := self._args(name, node)) is not None:
                return SizedTwin(name, args, node)
        return node

    def _candidates(self, node: SizedNode) -> Sequence[str]:
        module, _, cls = node.symbol.partition(":")
        if node.container == "namedtuple" and module.split(".")[0] == "optax":
            return _BY_OPTAX.get(cls, ())
        return _KNOWN_BY_KEYS if self.by_keys and node.container == "dict" else ()

    def _args(self, name: str, node: SizedNode) -> tuple[Sized, ...] | None:
        """What the type variables of a class stand for, or None where it is not the class of this node."""
        parts, variables = parts_of_twin(name)
        if parts.keys() != node.children.keys():
            return None
        found: dict[int, Sized] = {}
        for key, part in parts.items():
            child = node.children[key]
            if not isinstance(part, int):
                if not isinstance(child, SizedLeaf) or child.type != part:
                    return None
            elif not self._is_same(found.setdefault(part, child), child):
                return None
        return tuple(found[number] for number in range(len(variables)))

    def _is_same(self, one: Sized, other: Sized) -> bool:
        return self.shapes.structure(one) == self.shapes.structure(other) and (
            self.shapes.slots(one) == self.shapes.slots(other)
        )

    def _chain(self, node: SizedNode) -> Sized:
        members = list(node.children.values())
        if self.by_keys and any(isinstance(one, SizedTwin) for one in members):
            members = [_as_empty(one) for one in members]
            node = evolve(node, children=dict(zip(node.children, members, strict=True)))
        names = [one.name if isinstance(one, SizedTwin) else "" for one in members]
        for name, pattern in _CHAINS.items():
            if name in self.without or len(names) != len(pattern) or names[-1] not in _RATES:
                continue
            if names[:-1] == list(pattern[:-1]):
                first = members[0]
                assert isinstance(first, SizedTwin)
                args = first.args if name != "Sgd" else (first,)
                return SizedTwin(name, (*args, members[-1]), node)
        return node


def _as_empty(sized: Sized) -> Sized:
    return SizedTwin("EmptyState", (), sized) if isinstance(sized, SizedNode) and not sized.children else sized


@lru_cache
def parts_of_twin(name: str) -> tuple[_Parts, tuple[str, ...]]:
    """The keys of a class of the library and what stands there, and its type variables."""
    cls: Any = getattr(library, name)
    hints = typing.get_type_hints(cls, vars(library), include_extras=True)
    variables: tuple[TypeVar, ...] = getattr(cls, "__parameters__", ())
    parts: dict[str, int | ir.Type] = {}
    for one in attrs.fields(cls):
        hint = hints[one.name]
        if isinstance(hint, TypeVar):
            parts[one.name] = variables.index(hint)
        elif isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
            parts[one.name] = array(hint)
        else:
            parts = {"": ir.Untyped()}  # a chain, which is known by its members
            break
    return parts, tuple(variable.__name__ for variable in variables)


def is_like_params(name: str, number: int) -> bool:
    """Whether a type argument of a class of the library stands for a tree like the params."""
    return name != "FactoredState" and parts_of_twin(name)[1][number] == "_P"


def _by_optax_name() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for cls, name in library.twin_names().items():
        short = name.rpartition(".")[2]
        found[short] = (*found.get(short, ()), cls.__name__)
    return found


_BY_OPTAX: Final = _by_optax_name()
