"""The fields that a key map leads to, compared with those that a class has."""

import difflib
import enum
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs
from attrs import frozen

from treaty.schema import ir
from treaty.schema._key_patterns import BELOW, REST, Pattern, parse_field
from treaty.schema._key_texts import KeyText, key_text
from treaty.schema._read import schema_of
from treaty.schema.keymap import KeyMap, Leg


class _Any(enum.Enum):
    """A key that a class does not say."""

    ITEM = "[{i}]"  # of a list or a dict
    TREE = ".**"  # all that is below an untyped field


_Key: TypeAlias = "str | _Any | KeyText"  # the last one is for items that are spread


@frozen
class MapTarget:
    """A leaf of a class: its path, in which items have no key of their own, and whether a state may be without it."""

    keys: tuple[_Key, ...]
    type: ir.Type
    required: bool

    @property
    def text(self) -> str:
        """As a field of a rule is written."""
        shown = ""
        for key in self.keys:
            if isinstance(key, str):
                shown += f".{key}" if re.fullmatch(r"[^.\[\]'\"$]+", key) else f"[{key!r}]"
            else:
                shown += key.value if isinstance(key, _Any) else f".{key.key('{i}')}"
        return shown.removeprefix(".")


def target_problems(keymap: KeyMap, cls: Any) -> Iterator[str]:
    """What a restore of the class by this map would stumble over, whatever the checkpoint is."""
    schema = schema_of(cls)
    name = schema.root_class.symbol.partition(":")[2]
    targets = list(_targets(schema, ir.Node(schema.root), (), True))
    for rule in keymap.rules:
        for leg in rule.legs:
            yield from _misspelt(leg, targets, name)
    patterns = [leg.field for rule in keymap.rules for leg in rule.legs]
    patterns += [parse_field(path) for path in keymap.ignore_fields]
    for target in targets:
        if target.required and not any(_meet(pattern.keys, target.keys) for pattern in patterns):
            yield f"expected a rule for each field of {name}, got none for {target.text}"


def _targets(schema: ir.Schema, type: ir.Type, path: tuple[_Key, ...], required: bool) -> Iterator[MapTarget]:
    if isinstance(type, ir.Optional):
        yield from _targets(schema, type.item, path, False)
    elif isinstance(type, ir.Node):
        for field in schema[type.cls].fields:
            needed = required and field.default is None
            if field.spread:
                text = key_text(field.key)
                below: ir.Type = field.type
                items = below.items if isinstance(below, ir.Tuple) else [_item(schema, below)]
                names = [text.key(str(number)) for number in range(len(items))]
                keys: list[_Key] = [*names] if isinstance(below, ir.Tuple) else [text]
                for key, item in zip(keys, items, strict=True):
                    yield from _targets(schema, item, (*path, key), needed and isinstance(below, ir.Tuple))
            else:
                yield from _targets(schema, field.type, (*path, field.key), needed)
    elif isinstance(type, (ir.Sequence, ir.Dict)):
        # A dict may have just those keys that rules name.
        yield from _targets(schema, _item(schema, type), (*path, _Any.ITEM), required and isinstance(type, ir.Sequence))
    elif isinstance(type, ir.Untyped):
        yield MapTarget((*path, _Any.TREE), type, False)
    else:
        parts = ir.parts(schema, type)
        if parts is None:
            yield MapTarget(path, type, required)
        for key, part in (parts or {}).items():
            kind = ir.Scalar("str") if isinstance(type, ir.Key) else part
            yield from _targets(schema, kind, (*path, key), required)


def _item(schema: ir.Schema, type: ir.Type) -> ir.Type:
    return next(iter((ir.parts(schema, type, ("0",)) or {"0": ir.Untyped()}).values()))


def _misspelt(leg: Leg, targets: Sequence[MapTarget], name: str) -> Iterator[str]:
    keys = leg.field.keys
    met = [target for target in targets if _meet(keys, target.keys)]
    if not met:
        inside = any(_meet((*keys, Pattern(("", BELOW, ""))), target.keys) for target in targets)
        if inside:
            yield f"expected a leaf of {name}, got all of {_shown(leg.field)}; write {_shown(leg.field)}.** for what is below"
        else:
            known = ", ".join(_nearest(leg.field, targets)) or "none like it"
            yield f"expected a field of {name}, got {_shown(leg.field)}; there is {known}"
    for target in met:
        wanted = None if leg.layout is None or (REST,) in leg.layout.field else len(leg.layout.field)
        if isinstance(target.type, ir.Array) and wanted not in (None, len(target.type.dims)):
            yield f"expected a layout of {len(target.type.dims)} axes, got {wanted} for {target.text}"


def _nearest(field: Pattern, targets: Iterable[MapTarget]) -> list[str]:
    known = [target.text for target in targets]
    if BELOW in field.placeholders:
        nodes = [attrs.evolve(one, keys=one.keys[:end]).text for one in targets for end in range(1, len(one.keys))]
        known = [f"{node}.{BELOW}" for node in dict.fromkeys(nodes)]
    return difflib.get_close_matches(_shown(field), known, n=3, cutoff=0.5)


def _shown(pattern: Pattern) -> str:
    return re.sub(r"\.(\{\w+\})(?=\.|$)", r"[\1]", pattern.text)


def _meet(pattern: Sequence[Pattern], keys: Sequence[_Key]) -> bool:
    """Whether some name fits both a pattern, key by key, and the path of a leaf."""
    if not pattern or not keys:
        return not pattern and not keys
    first, rest = pattern[0], pattern[1:]
    if keys[0] is _Any.TREE:
        return True
    if first.parts == ("", BELOW, ""):
        return any(_meet(rest, keys[taken:]) for taken in range(1, len(keys) + 1))
    return _fits(first, keys[0]) and _meet(rest, keys[1:])


def _fits(one: Pattern, key: _Key) -> bool:
    if isinstance(key, str):
        return one.regex(frozenset()).fullmatch(key) is not None
    if isinstance(key, _Any):
        return True
    sample = one.fill(dict.fromkeys(one.placeholders, "0"))
    return key.item(sample) is not None
