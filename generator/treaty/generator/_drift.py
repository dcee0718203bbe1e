"""DRIFT: a declaration is as it was locked, but a class of another package that it reaches is not."""

from collections.abc import Callable, Iterator, Mapping
from typing import assert_never

import attrs
from attrs import frozen

from treaty.generator._findings import DriftKind
from treaty.generator._revisions import Next
from treaty.schema import Schema, ir
from treaty.schema.evolution.changes import own_changes
from treaty.schema.evolution.resolution import EACH, Path

Whereabouts = Callable[[str], str]  # of a class by its former symbol: its symbol today, or "" if it cannot be imported


@frozen
class Drift:
    """A class of another package, as it stands at a path in one of ours. `above` are the classes of ours on the way."""

    kind: DriftKind
    path: Path
    was: str
    now: str
    changes: tuple[str, ...]
    above: tuple[str, ...]

    @property
    def message(self) -> str:
        if self.kind == "renamed":
            return f"{self.was}, of another package, is {self.now} now"
        return f"{self.now}, of another package, changed ({'; '.join(self.changes)})"


def drifts(before: Schema, after: Schema, is_own: Callable[[str], bool], whereabouts: Whereabouts) -> list[Drift]:
    """What changed in other packages' classes; [] where a declaration of ours changed too, or nothing did."""
    pairs = list(_pairs(before, after))

    def is_foreign(pair: _Places) -> bool:
        return not is_own(before[pair.old].module) and not is_own(after[pair.new].module)

    names = {before[pair.old].symbol: after[pair.new].symbol for pair in pairs if is_foreign(pair)}
    # Whoever names a class that was renamed elsewhere says the same as before.
    classes = tuple(attrs.evolve(cls, symbol=names.get(cls.symbol, cls.symbol)) for cls in before.classes)
    renamed = Schema(before.root, classes)
    found = []
    for pair in pairs:
        was, now = before[pair.old].symbol, after[pair.new].symbol
        texts = own_changes(renamed, after, pair.old, pair.new)
        if is_foreign(pair) and was != now and whereabouts(was) in ("", now):
            found.append(Drift("renamed", pair.path, was, now, (), pair.above))
        elif is_foreign(pair) and was == now and texts:
            found.append(Drift("changed", pair.path, was, now, texts, pair.above))
        elif was != now or texts:
            return []
    return found


def told_below(symbol: str, found: Mapping[str, list[Drift]]) -> bool:
    """Whether all that drifted under a class did so under a class that it reaches, which tells of it."""
    return all(any(found.get(one) for one in drift.above if one != symbol) for drift in found[symbol])


def can_have_drifted(asked: Next) -> bool:
    """A migration is written on purpose, and so is a class that is new."""
    return asked.number > 1 and asked.step is None


@frozen
class _Places:
    """Two classes, by their ids, that stand at the same place, and the classes on the way there."""

    old: str
    new: str
    path: Path = ()
    above: tuple[str, ...] = ()


def _pairs(before: Schema, after: Schema) -> Iterator[_Places]:
    """Those that are not one declaration, each where it stands first."""
    pending = [_Places(before.root, after.root)]
    seen = {(before.root, after.root)}
    for pair in pending:  # grows while it is walked
        if before.at(pair.old).is_like(after.at(pair.new)):
            continue
        yield pair
        above = (*pair.above, after[pair.new].symbol)
        others = {field.key: field.type for field in after[pair.new].fields}
        for field in before[pair.old].fields:
            for old, new, path in _nodes(field.type, others.get(field.key), (field.key,)):
                if (old, new) not in seen:
                    seen.add((old, new))
                    pending.append(_Places(old, new, (*pair.path, *path), above))


def _nodes(was: ir.Type, now: ir.Type | None, path: Path) -> Iterator[tuple[str, str, Path]]:
    if isinstance(was, ir.Node) and isinstance(now, ir.Node):
        yield was.cls, now.cls, path
    if now is None:
        return
    parts, others = ir.children(was), ir.children(now)
    if type(was) is type(now) and len(parts) == len(others):
        for index, (old, new) in enumerate(zip(parts, others, strict=True)):
            yield from _nodes(old, new, (*path, *_key(was, index)))


def _key(type: ir.Type, index: int) -> Path:
    """Under which key a state dict has one of the types that a type is made of."""
    if isinstance(type, ir.Optional):
        return ()
    if isinstance(type, ir.Partial):
        return (("args", "keywords")[index],)
    if isinstance(type, ir.Tuple):
        return (str(index),)
    if isinstance(type, (ir.Leaf, ir.Node, ir.Sequence, ir.Dict)):
        return (EACH,)
    assert_never(type)
