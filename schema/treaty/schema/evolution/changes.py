"""What changed between two declarations of a class, in words: for the lock and for whoever reviews it."""

import re
from collections.abc import Iterator

import attrs
from attrs import frozen

from treaty.schema import ir
from treaty.schema.dims import Expr


def changes(before: ir.Schema, after: ir.Schema) -> tuple[str, ...]:
    """One line for each field of the class itself, then the classes that it reaches and that changed."""
    both = _Both(before, after)
    reached = [(before.root, after.root)]
    through: dict[str, None] = {}
    for pair in reached:  # grows while it is walked
        for below in both.pairs(*pair):
            if below not in reached:
                reached.append(below)
                if any(both.classes(*below)):
                    through[after[below[1]].qualname] = None
    own = both.classes(before.root, after.root)
    return (*own, *([f"through {', '.join(through)}"] if through else []))


def own_changes(before: ir.Schema, after: ir.Schema, old: str, new: str) -> tuple[str, ...]:
    """Of a class that both reach, by its ids, and of none that it reaches."""
    return tuple(_Both(before, after).classes(old, new))


@frozen
class _Both:
    before: ir.Schema
    after: ir.Schema

    def classes(self, old: str, new: str) -> Iterator[str]:
        """What changed in the fields of a class itself."""
        was, now = self.before[old], self.after[new]
        if _kind(was) != _kind(now):
            yield f"was of kind {was.kind}, is {now.kind}"
        fields, others = ({field.key: field for field in cls.fields} for cls in (was, now))
        for key in dict.fromkeys([*fields, *others]):
            if key not in others:
                yield f"{key}: removed"
            elif key not in fields:
                filled = "" if others[key].default is None else f", default {others[key].default}"
                yield f"{key}: added, {_shown(others[key].type)}{filled}"
            else:
                yield from (f"{key}: {text}" for text in self.fields(fields[key], others[key]))

    def fields(self, was: ir.Field, now: ir.Field) -> Iterator[str]:
        if not self.is_alike(was.type, now.type):
            pairs = ((_shown(one.type), ir.describe(one.type)) for one in (was, now))
            old, new = next((pair for pair in zip(*pairs, strict=True) if pair[0] != pair[1]), ("", ""))
            yield f"{old} -> {new}" if old else f"{_shown(now.type)}, with other lengths, members or ties"
        if was.spread != now.spread:
            yield "its items lie beside the other keys now" if now.spread else "its items have a key of their own now"
        if was.static != now.static:
            yield "static now" if now.static else "not static any more"
        if was.default != now.default:
            yield f"default {was.default or 'none'} -> {now.default or 'none'}"

    def is_alike(self, was: ir.Type, now: ir.Type) -> bool:
        """Whether two types are of the same classes, whatever has become of these: they tell of it themselves."""
        if _nameless(was) != _nameless(now):
            return False
        for old, new in zip(ir.nodes(was), ir.nodes(now), strict=True):
            common = {*self.before[old.cls].dims} & {*self.after[new.cls].dims}
            if self.before[old.cls].symbol != self.after[new.cls].symbol or _ties(old, common) != _ties(new, common):
                return False
        return True

    def pairs(self, old: str, new: str) -> Iterator[tuple[str, str]]:
        """The classes that stand at the same place in both."""
        others = {field.key: field.type for field in self.after[new].fields}
        for field in self.before[old].fields:
            if field.key in others and _nameless(field.type) == _nameless(others[field.key]):
                nodes = zip(ir.nodes(field.type), ir.nodes(others[field.key]), strict=True)
                yield from ((was.cls, now.cls) for was, now in nodes)


def _nameless(type: ir.Type) -> ir.Type:
    """A type without what digests leave out, names of classes and enums and where arrays live, and without ties."""
    if isinstance(type, ir.Node):
        return ir.Node("")
    if isinstance(type, ir.Enum):
        return attrs.evolve(type, symbol="")
    if isinstance(type, ir.Array):
        return attrs.evolve(type, host=False)
    return ir.with_children(type, _nameless)


def _ties(node: ir.Node, dims: set[str]) -> list[tuple[str, Expr]]:
    return [one for one in node.ties if one[0] in dims]


def _kind(cls: ir.Class) -> str:
    return "class" if cls.kind in ("state", "attrs") else cls.kind


def _shown(type: ir.Type) -> str:
    """Without modules; a type variable, of which no name is kept, is told by its number among the arguments."""
    text = re.sub(r"[\w.]+:(?! )([\w.]+\.<locals>\.)?", "", ir.describe(type)).replace("(...=...)", "")
    return re.sub(f"{ir.VARIABLE}([0-9]+)", lambda found: f"type argument {int(found[1]) + 1}", text)
