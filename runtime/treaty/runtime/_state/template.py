"""Restoring into a template instance: its shapes must match, and its containers give form to untyped subtrees."""

from collections.abc import Mapping
from typing import Any

import jax

from treaty.runtime._state.untyped import like_template
from treaty.schema import Schema, ir


def same_shapes(obj: Any, template: Any) -> bool:
    """Whether two instances have one structure, equal static fields, and leaves of one shape."""
    tree: Any  # PyTreeDef's stub lacks ==
    leaves, tree = jax.tree.flatten(obj)
    expected, expected_tree = jax.tree.flatten(template)
    return bool(tree == expected_tree) and all(
        getattr(leaf, "shape", None) == getattr(want, "shape", None)
        for leaf, want in zip(leaves, expected, strict=True)
    )


def fill_untyped(schema: Schema, state: Any, template: Any) -> Any:
    """The state dict with its untyped subtrees in the template's containers; the caller's dict stays as it was."""
    if not any(isinstance(type, ir.Untyped) for cls in schema.classes for type in _all_types(cls)):
        return state
    return _fill_class(schema, schema.root_class, state, template)


def _fill_class(schema: Schema, cls: ir.Class, state: Any, template: Any) -> Any:
    if state.__class__ is not dict:
        return state
    filled = dict(state)
    for field in cls.fields:
        if field.key in filled:
            below = template[field.name] if cls.kind in ("typeddict", "keywords") else getattr(template, field.name)
            filled[field.key] = _fill(schema, field.type, filled[field.key], below)
    return filled


def _fill(schema: Schema, type: ir.Type, state: Any, template: Any) -> Any:
    if isinstance(type, ir.Untyped):
        return like_template(template, state)
    if isinstance(type, ir.Optional):
        return state if template is None else _fill(schema, type.item, state, template)
    if state.__class__ is not dict:
        return state
    if isinstance(type, ir.Node):
        return _fill_class(schema, schema[type.cls], state, template)
    if isinstance(type, ir.Sequence):
        return {key: _fill(schema, type.item, state.get(key), one) for key, one in _numbered(template, state)}
    if isinstance(type, ir.Tuple):
        pairs = zip(type.items, _numbered(template, state), strict=False)
        return {key: _fill(schema, item, state.get(key), one) for item, (key, one) in pairs}
    if isinstance(type, ir.Dict) and {str(key) for key in template} == set(state):
        return {str(key): _fill(schema, type.value, state[str(key)], one) for key, one in template.items()}
    return state


def _numbered(template: Any, state: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    """Template items by key, when the state has as many; otherwise each its own, for `explain` to report."""
    if set(state) == {str(index) for index in range(len(template))}:
        return [(str(index), one) for index, one in enumerate(template)]
    return [(key, None) for key in state]


def _all_types(cls: ir.Class) -> list[ir.Type]:
    pending: list[ir.Type] = [field.type for field in cls.fields]
    for type in pending:
        pending.extend(ir.children(type))
    return pending
