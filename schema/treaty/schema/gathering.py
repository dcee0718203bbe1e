"""States whose spread items are gathered, and back: `block_0`, `block_1` under `block_{i}`, as a list lies under its key.

Evolution works on gathered states. To it a field that is spread is one like any other, so that a list may become spread,
or stop to be, by an alias. Such a state is one of `schema.gathered`.
"""

from typing import Any

from treaty.schema import ir
from treaty.schema._key_texts import key_text


def gather(schema: ir.Schema, state: Any) -> Any:
    """A state dict of the schema, with its spread items under the key of their field; what does not fit stays where it is."""
    return _gather(schema, ir.Node(schema.root), state) if schema.spreads else state


def spread(schema: ir.Schema, state: Any) -> Any:
    """The way back."""
    return _spread(schema, ir.Node(schema.root), state) if schema.spreads else state


def gathered_path(schema: ir.Schema, path: tuple[str, ...]) -> tuple[str, ...]:
    """Where a node of a state dict is once that is gathered."""
    type: ir.Type = ir.Node(schema.root)
    found: list[str] = []
    for key in path:
        inner = type.item if isinstance(type, ir.Optional) else type
        fields = schema[inner.cls].fields if isinstance(inner, ir.Node) else ()
        items = [(one.key, key_text(one.key).item(key)) for one in fields if one.spread]
        found += next(([pattern, item] for pattern, item in items if item is not None), [key])
        type = (ir.parts(schema, inner, (key,)) or {}).get(key, ir.Untyped())
    return tuple(found)


def _gather(schema: ir.Schema, type: ir.Type, state: Any) -> Any:
    if state.__class__ is not dict:
        return state
    inner = type.item if isinstance(type, ir.Optional) else type
    parts = ir.parts(schema, inner, state) or {}
    walked = {key: _gather(schema, parts[key], one) if key in parts else one for key, one in state.items()}
    for field in schema[inner.cls].fields if isinstance(inner, ir.Node) else ():
        if field.spread and field.key not in state:
            text = key_text(field.key)
            items = text.gathered(walked)
            walked = {key: one for key, one in walked.items() if text.item(key) is None}
            walked[field.key] = items
    return walked


def _spread(schema: ir.Schema, type: ir.Type, state: Any) -> Any:
    if state.__class__ is not dict:
        return state
    inner = type.item if isinstance(type, ir.Optional) else type
    parts = ir.parts(schema.gathered, inner, state) or {}
    found: dict[str, Any] = {}
    spreading = {one.key for one in schema[inner.cls].fields if one.spread} if isinstance(inner, ir.Node) else ()
    for key, one in state.items():
        below = _spread(schema, parts[key], one) if key in parts else one
        items = key_text(key).spread(below) if key in spreading and below.__class__ is dict else {key: below}
        found |= (
            {key: below} if items.keys() & state.keys() else items
        )  # two at one place stay, for the check that follows
    return found
