"""What changed between two declarations of a class, in words: for the lock and for whoever reviews it."""

import re
from collections.abc import Iterator

import attrs

from treaty.schema import ir


def changes(before: ir.Schema, after: ir.Schema) -> tuple[str, ...]:
    """One line for each field of the class itself, then the classes that it reaches and that changed."""
    texts = list(_of_class(before.root_class, after.root_class))
    reached = [(before.root, after.root)]
    through: dict[str, None] = {}
    for old, new in reached:  # grows while it is walked
        for pair in _pairs(before[old], after[new]):
            if pair not in reached:
                reached.append(pair)
                if any(_of_class(before[pair[0]], after[pair[1]])):
                    through[after[pair[1]].qualname] = None
    return (*texts, *([f"through {', '.join(through)}"] if through else []))


def _of_class(before: ir.Class, after: ir.Class) -> Iterator[str]:
    if _kind(before) != _kind(after):
        yield f"was of kind {before.kind}, is {after.kind}"
    old, new = ({field.key: field for field in cls.fields} for cls in (before, after))
    for key in (*old, *(key for key in new if key not in old)):
        if key not in new:
            yield f"{key}: removed"
        elif key not in old:
            filled = "" if new[key].default is None else f", default {new[key].default}"
            yield f"{key}: added, {_shown(new[key].type)}{filled}"
        else:
            yield from (f"{key}: {text}" for text in _of_field(old[key], new[key]))


def _of_field(before: ir.Field, after: ir.Field) -> Iterator[str]:
    if _nameless(before.type) != _nameless(after.type):
        old, new = _shown(before.type), _shown(after.type)
        yield f"{old} -> {new}" if old != new else f"{new}, with other lengths, members or ties"
    if before.static != after.static:
        yield "static now" if after.static else "not static any more"
    if before.default != after.default:
        yield f"default {before.default or 'none'} -> {after.default or 'none'}"


def _pairs(before: ir.Class, after: ir.Class) -> Iterator[tuple[str, str]]:
    """The classes that stand at the same place in both."""
    new = {field.key: field.type for field in after.fields}
    for field in before.fields:
        if field.key in new and _nameless(field.type) == _nameless(new[field.key]):
            both = zip(ir.nodes(field.type), ir.nodes(new[field.key]), strict=True)
            yield from ((old.cls, now.cls) for old, now in both)


def _nameless(type: ir.Type) -> ir.Type:
    """A type without what digests leave out: names of classes and enums, and where arrays live."""
    if isinstance(type, ir.Node):
        return attrs.evolve(type, cls="")
    if isinstance(type, ir.Enum):
        return attrs.evolve(type, symbol="")
    if isinstance(type, ir.Array):
        return attrs.evolve(type, host=False)
    return ir.with_children(type, _nameless)


def _kind(cls: ir.Class) -> str:
    return "class" if cls.kind in ("state", "attrs") else cls.kind


def _shown(type: ir.Type) -> str:
    return re.sub(r"[\w.]+:([\w.]+\.<locals>\.)?", "", ir.describe(type))
