"""Restoring into a template instance: its shapes must match, and its containers give form to untyped subtrees."""

from collections import OrderedDict
from typing import Any, assert_never

import jax
from attrs import frozen

from treaty.runtime._state.scalars import same_static
from treaty.runtime._state.untyped import Restore, like_template
from treaty.schema import Schema, ir
from treaty.schema._key_texts import key_text


def same_shapes(obj: Any, template: Any) -> bool:
    """Whether two instances have one structure, equal static fields, and leaves of one shape."""
    leaves, tree = jax.tree.flatten(obj)
    expected, expected_tree = jax.tree.flatten(template)
    if difference(tree, expected_tree) is not None:
        (leaves, tree), (expected, expected_tree) = (jax.tree.flatten(plain_dicts(one)) for one in (obj, template))
    return difference(tree, expected_tree) is None and all(
        getattr(leaf, "shape", None) == getattr(want, "shape", None)
        for leaf, want in zip(leaves, expected, strict=True)
    )


def plain_dicts(tree: Any) -> Any:
    """The tree with a dict in place of each OrderedDict: a field of a dict takes either, and gives back the one."""

    def plain(one: Any) -> Any:
        return {key: plain_dicts(value) for key, value in one.items()} if isinstance(one, OrderedDict) else one

    return jax.tree.map(plain, tree, is_leaf=lambda one: isinstance(one, OrderedDict))


def difference(tree: Any, expected: Any) -> tuple[str, str] | None:
    """The first node that is expected and the one that is there, None where two structures are equal but for NaNs."""
    if tree == expected:
        return None
    node, wanted = tree.node_data(), expected.node_data()
    if node is None or wanted is None or node[0] is not wanted[0] or not same_static(node[1], wanted[1]):
        return _show_node(wanted), _show_node(node)
    below, wanted_below = tree.children(), expected.children()
    if len(below) != len(wanted_below):
        return f"{len(wanted_below)} items", f"{len(below)}"
    found = map(difference, below, wanted_below)
    return next((one for one in found if one is not None), None)


def _show_node(data: Any) -> str:
    if data is None:
        return "a leaf"
    return f"{data[0].__qualname__} with {data[1]!r}"[:120]


def fill_untyped(schema: Schema, state: Any, template: Any, restore: Restore) -> Any:
    """The state dict with its untyped subtrees in the template's containers; the caller's dict stays as it was."""
    return _Filler(schema, restore).cls(schema.root_class, state, template) if has_untyped(schema) else state


def has_untyped(schema: Schema) -> bool:
    types = (type for cls in schema.classes for field in cls.fields for type in ir.every_type(field.type))
    return any(isinstance(type, ir.Untyped) for type in types)


@frozen
class _Filler:
    schema: Schema
    restore: Restore

    def cls(self, cls: ir.Class, state: Any, template: Any) -> Any:
        if state.__class__ is not dict:
            return state
        filled = dict(state)
        for field in cls.fields:
            below = cls.value_of(field, template)
            if field.spread:
                text = key_text(field.key)
                filled |= text.spread(self.type(field.type, text.gathered(filled), below))
            elif field.key in filled:
                filled[field.key] = self.type(field.type, filled[field.key], below)
        return filled

    def type(self, type: ir.Type, state: Any, template: Any) -> Any:
        if isinstance(type, ir.Untyped):
            return like_template(template, state, self.restore)
        if isinstance(type, ir.Optional):
            return state if template is None else self.type(type.item, state, template)
        if state.__class__ is not dict:
            return state
        if isinstance(type, ir.Node):
            return self.cls(self.schema[type.cls], state, template)
        if isinstance(type, (ir.Sequence, ir.Tuple)):
            items = type.items if isinstance(type, ir.Tuple) else (type.item,) * len(state)
            keys = [str(index) for index in range(len(items))]
            if len(template) != len(keys) or state.keys() != set(keys):
                return state  # as it is: `explain` tells how the two differ
            pairs = zip(keys, items, template, strict=True)
            return {key: self.type(item, state[key], one) for key, item, one in pairs}
        if isinstance(type, ir.Dict):
            if {str(key) for key in template} != set(state):
                return state
            return {str(key): self.type(type.value, state[str(key)], one) for key, one in template.items()}
        if isinstance(type, (ir.Array, ir.Key, ir.Fitted, ir.Scalar, ir.NumpyScalar, ir.Enum, ir.Partial)):
            return state
        assert_never(type)
