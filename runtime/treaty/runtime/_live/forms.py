"""The structure of a tree as nested dicts by key, laid out as state dicts are, with a slot for each leaf."""

import inspect
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import count
from numbers import Number
from types import MemberDescriptorType
from typing import Any, Final, TypeAlias

import numpy as np
from attrs import frozen
from jax.tree_util import Partial, PyTreeDef, tree_flatten_with_path

from treaty.runtime._live.frameworks import Kinds, boxes, variables
from treaty.runtime._state.registry import fields_of
from treaty.schema import TreatyError, ir
from treaty.schema._key_texts import KeyText, key_text

_Child: TypeAlias = tuple[Any, str, Any]  # its key, how Python reaches it, and itself
_OF_NNX: Final = "_pytree__"  # how nnx's own attributes begin
_CONTAINERS: Final = (dict, OrderedDict, defaultdict, list, tuple)
PLAIN: Final = (bool, int, float, complex, str, bytes)


@frozen(eq=False)
class LeafSlot:
    """A leaf: its index among the tree's leaves, and how Python reaches it."""

    index: int
    shown: str


@frozen(eq=False)
class StaticValue:
    """A field that JAX does not count as a leaf."""

    value: Any
    shown: str

    def opened(self) -> "FormNode | None":
        """A tuple, list or dict with its items, which may be leaves elsewhere; None of any other value."""
        items: Iterable[tuple[Any, Any]]
        if isinstance(self.value, (tuple, list)):
            items = enumerate(self.value)
        elif isinstance(self.value, dict):
            items = self.value.items()
        else:
            return None
        made = FormNode(self.shown, self.value)
        made.update((_text(key), StaticValue(one, f"{self.shown}[{key!r}]")) for key, one in items)
        return made


class FormNode(dict[str, "Form"]):
    """A node with its children by key. Of one with attributes, those that are no children can be asked for."""

    def __init__(self, shown: str = "", owner: object = None, spread: tuple[KeyText, ...] = ()) -> None:
        super().__init__()
        self.shown = shown
        self.owner = owner
        self._spread = spread

    @property
    def lists_all_items(self) -> bool:
        """Whether it is a list, a tuple or a dict, which has an item for all that there is."""
        return type(self.owner) in _CONTAINERS

    def declares(self, key: str) -> bool:
        """Whether what is under a key would be an item of this node, or of a list that is spread in it."""
        return self.lists_all_items or any(text.item(key) is not None for text in self._spread)

    def attribute(self, key: str) -> "StaticValue | Absent":
        """What a module has beside its children, if it is a value that can be stored. No property is run."""
        value = inspect.getattr_static(self.owner, key, None)
        if isinstance(value, MemberDescriptorType):
            value = getattr(self.owner, key, None)
        return StaticValue(value, f"{self.shown}.{key}") if _can_be_static(value) else ABSENT


class Absent:
    """There is nothing under a key."""


ABSENT: Final = Absent()
Form: TypeAlias = FormNode | LeafSlot | StaticValue | None


def form_of(tree: object, structure: PyTreeDef, only: Kinds = ()) -> Form | Absent:
    """The form of a tree, whose structure this is; variables of other kinds than `only`, if any are named, are not in it."""
    return _FormWalk(only).form(tree, structure, "")


def slots(form: Form | Absent) -> Iterator[LeafSlot]:
    """The leaves of a form."""
    if isinstance(form, FormNode):
        for one in form.values():
            yield from slots(one)
    elif isinstance(form, LeafSlot):
        yield form


def place(form: Form | Absent, path: Iterable[str | int]) -> str:
    """How Python reaches what is at a path of keys, or the last node on the way."""
    shown = ""
    for key in path:
        form = form.get(str(key)) if isinstance(form, FormNode) else None
        if form is None or isinstance(form, Absent):
            break
        shown = form.shown
    return shown


class _FormWalk:
    """One walk along a tree and its treedef, which says what JAX takes for a leaf, and in which order."""

    def __init__(self, only: Kinds) -> None:
        self._only = only
        self._boxes = boxes()
        self._variables = variables()
        self._leaves = count()
        self._fields: dict[type, Mapping[str, ir.Field]] = {}

    def form(self, node: Any, structure: PyTreeDef, shown: str) -> Form | Absent:
        if structure.num_nodes == 1 and structure.num_leaves == 1:
            return LeafSlot(next(self._leaves), shown)
        if node is None:
            return None
        if self._only and isinstance(node, self._variables) and not isinstance(node, self._only):
            for _ in range(structure.num_leaves):
                next(self._leaves)
            return ABSENT
        if isinstance(node, self._boxes) and len(structure.children()) == 1:
            ((_, _, value),) = _children(node, structure)
            return self.form(value, structure.children()[0], shown)
        fields = self._fields_of(type(node))
        made = FormNode(shown, node, tuple(key_text(one.key) for one in fields.values() if one.spread))
        for (key, step, child), below in zip(_children(node, structure), structure.children(), strict=True):
            form = self.form(child, below, shown + step)
            text = _text(key)
            if text.startswith(_OF_NNX) or isinstance(form, Absent):
                continue
            self._add(made, fields.get(text), text, form)
        for field in fields.values():
            if field.static:
                made[field.key] = StaticValue(getattr(node, field.name), f"{shown}.{field.name}")
        return made

    def _fields_of(self, cls: type) -> Mapping[str, ir.Field]:
        """How a class with generated code names its fields in state dicts."""
        if cls not in self._fields:
            self._fields[cls] = {one.name: one for one in fields_of(cls)}
        return self._fields[cls]

    def _add(self, made: FormNode, field: ir.Field | None, text: str, form: Form) -> None:
        """A child under its key in a state dict, or its items under theirs."""
        if field is not None and field.spread and isinstance(form, FormNode):
            entries: dict[str, Form] = key_text(field.key).spread(form)
        else:
            entries = {text if field is None or field.spread else field.key: form}
        for key, one in entries.items():
            if key in made:
                raise TreatyError(
                    f"expected keys of different text, got {key!r} twice at tree{made.shown}; rename one of them"
                )
            made[key] = one


def _can_be_static(value: object) -> bool:
    """Whether a static field may hold it; None of a module is nothing."""
    if isinstance(value, tuple):
        return all(map(_can_be_static, value))
    return isinstance(value, (*PLAIN, np.generic, Enum))


def _children(node: Any, structure: PyTreeDef) -> Iterable[_Child]:
    """The children in JAX's order."""
    cls = type(node)
    if cls is dict:
        _, keys = structure.node_data() or (dict, ())
        return ((key, f"[{key!r}]", node[key]) for key in keys)
    if cls in (list, tuple):
        return ((index, f"[{index}]", child) for index, child in enumerate(node))
    if cls is Partial:
        return (("args", ".args", node.args), ("keywords", ".keywords", node.keywords))
    return _one_level(node)


def _one_level(node: Any) -> Iterator[_Child]:
    for path, child in tree_flatten_with_path(node, is_leaf=lambda one: one is not node)[0]:
        key: Any = path[0]
        yield next((getattr(key, one) for one in ("name", "key", "idx") if hasattr(key, one)), key), str(key), child


def _text(key: object) -> str:
    """A key as state dicts have it. Keys that are equal have one text, as they are one key of a dict: 1 and True."""
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, Number) and not isinstance(key, complex) and key == key // 1:  # type: ignore[operator]
        return str(int(key))  # type: ignore[call-overload]
    return str(key)
