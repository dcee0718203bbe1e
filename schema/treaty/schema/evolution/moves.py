"""The rules of a migration against the two revisions that it lies between: what they take, what they give, what is left.

A rule without a layout, an axis or stacked layers takes a subtree or a leaf elsewhere as it is: such are `plain`, and what is
below goes on to be resolved. All others change arrays; they are `shaped`, and carried out as key maps are.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, product
from typing import assert_never

import attrs
from attrs import frozen

from treaty.schema import ir
from treaty.schema._key_patterns import REST, SEPARATOR, Axis, Pattern
from treaty.schema._key_texts import fused, is_key_text, key_text
from treaty.schema.dims import Dim, Expr, Name, substituted
from treaty.schema.dtypes import WIDER
from treaty.schema.evolution.migrations import Moves
from treaty.schema.evolution.move_sizes import LegArrays, size_pairs
from treaty.schema.evolution.resolution import EACH, Move, Path, Plan, Shape, show
from treaty.schema.evolution.sizes import SizePair, writer_sizes
from treaty.schema.keymap import Leg, Rule


class Unfitting(Exception):
    """A rule does not fit the revisions that it lies between."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(expected, got)
        self.expected, self.got = expected, got


@frozen
class PlainMove:
    """A subtree or leaf that a rule takes elsewhere, with its types on both sides."""

    rule: Rule
    source: Path
    path: Path
    taken: ir.Type
    given: ir.Type
    cast_from: tuple[str, ...] = ()  # of the field that it is given to

    def move(self, plan: Plan) -> Move:
        return Move(self.rule, self.source, self.path, plan)


@frozen
class SortedRules:
    """`taken` and `given` are the schemas of the two revisions without what the rules take and give."""

    taken: ir.Schema
    given: ir.Schema
    plain: tuple[PlainMove, ...]
    shaped: tuple[Shape, ...]
    sizes: tuple[SizePair, ...]  # of what is shaped


def moved(begin: ir.Schema, end: ir.Schema, step: Moves) -> SortedRules:
    """Raises Unfitting for a rule that does not fit the two revisions."""
    stored, fields = dict(nodes_below(begin)), dict(nodes_below(end))
    plain: list[PlainMove] = []
    shaped: list[Shape] = []
    sizes: list[SizePair] = []
    taken: set[Path] = set()
    given: set[Path] = set()
    for rule in step.keymap.rules:
        if len(rule.legs) == 1 and rule.legs[0].layout is None:
            found = [
                attrs.evolve(one, cast_from=_cast_from(end, one.path))
                for one in _plain(rule, rule.legs[0], stored, fields)
            ]
            plain += found
            taken |= {one.source for one in found}
            given |= {one.path for one in found}
        else:
            shape, pairs = _shape(rule, stored, fields)
            shaped.append(shape)
            sizes += pairs
            taken |= set(shape.sources)
            given |= set(shape.targets)
    left, rest = _with_shells(without(begin, taken), without(end, given), given)
    return SortedRules(left, rest, tuple(plain), tuple(shaped), tuple(sizes))


def nodes_below(schema: ir.Schema) -> Iterator[tuple[Path, ir.Type]]:
    """Every node below the root, by its path in a gathered state, with its sizes in terms of the root's dims.

    A class inside itself is not walked again.
    """
    schema = schema.gathered

    def walk(
        type: ir.Type, path: Path, above: tuple[str, ...], dims: Mapping[str, Expr] | None
    ) -> Iterator[tuple[Path, ir.Type]]:
        """`dims` are those of the class that the type stands in; None for the root's own."""
        type = type if dims is None else with_sizes(type, dims)
        if path:
            yield path, type
        inner = type.item if isinstance(type, ir.Optional) else type
        if isinstance(inner, ir.Leaf):
            return
        if isinstance(inner, ir.Node):
            if inner.cls in above:
                return
            above = (*above, inner.cls)
            dims = _dims_of(schema[inner.cls], inner, path) if path else None
        else:
            dims = None  # they are filled in already
        for key, part in (ir.parts(schema, inner, (EACH,)) or {}).items():
            yield from walk(part, (*path, key), above, dims)

    yield from walk(ir.Node(schema.root), (), (), None)


def _dims_of(cls: ir.Class, node: ir.Node, path: Path) -> Mapping[str, Expr]:
    """The dims of a class inside: as its owner ties them, and what is not tied under a name of its own."""
    tied = dict(node.ties)
    own = {name: tied.get(name, Name(f"{'.'.join(path)}.{name}")) for name in cls.dims}
    return {name: substituted(size, own) for name, size in writer_sizes(cls).items()}


def with_sizes(type: ir.Type, sizes: Mapping[str, Expr]) -> ir.Type:
    """A type whose sizes are said in other dims; labels are names of the class that it was in."""
    if isinstance(type, ir.Node):
        return ir.Node(type.cls, tuple((name, substituted(size, sizes)) for name, size in type.ties))
    if isinstance(type, (ir.Array, ir.Key, ir.Fitted)):
        return attrs.evolve(type, dims=tuple(Dim(substituted(dim.size, sizes)) for dim in type.dims))
    if isinstance(type, (ir.Sequence, ir.Dict)) and type.length is not None:
        type = attrs.evolve(type, length=substituted(type.length, sizes))
    return ir.with_children(type, lambda part: with_sizes(part, sizes))


def _cast_from(schema: ir.Schema, path: Path) -> tuple[str, ...]:
    """The dtypes that the field at a path, or the one that it is inside of, converts."""
    schema = schema.gathered
    type: ir.Type = ir.Node(schema.root)
    found: tuple[str, ...] = ()
    for key in path:
        inner = type.item if isinstance(type, ir.Optional) else type
        if isinstance(inner, ir.Node):
            found = next(one.cast_from for one in schema[inner.cls].fields if one.key == key)
        type = (ir.parts(schema, inner, (EACH,)) or {})[key]
    return found


def without(schema: ir.Schema, paths: Iterable[Path]) -> ir.Schema:
    """The schema without these nodes, and without what has nothing left; classes are cut where they stand, not everywhere."""
    cut = _Cut(schema, {cls.id: cls for cls in schema.classes})
    root = cut.cls(schema.root, sorted(paths)) or cut.empty(schema.root)
    return ir.Schema(root, tuple(cut.made.values())).at(root)


@attrs.define
class _Cut:
    schema: ir.Schema
    made: dict[str, ir.Class]

    def cls(self, id: str, paths: Sequence[Path]) -> str | None:
        if not paths:
            return id
        fields = self._parts({one.key: one.type for one in self.schema[id].fields}, paths)
        kept = [
            attrs.evolve(one, type=type) for one in self.schema[id].fields if (type := fields.get(one.key)) is not None
        ]
        return self._enter(attrs.evolve(self.schema[id], fields=tuple(kept))) if kept else None

    def empty(self, id: str) -> str:
        return self._enter(attrs.evolve(self.schema[id], fields=()))

    def _parts(self, parts: dict[str, ir.Type], paths: Sequence[Path]) -> dict[str, ir.Type | None]:
        found: dict[str, ir.Type | None] = {}
        for key, type in parts.items():
            below = [path[1:] for path in paths if path[0] == key]
            found[key] = None if () in below else self._type(type, below) if below else type
        return found

    def _type(self, type: ir.Type, paths: Sequence[Path]) -> ir.Type | None:
        if isinstance(type, ir.Optional):
            inner = self._type(type.item, paths)
            return None if inner is None else ir.Optional(inner)
        if isinstance(type, ir.Node):
            made = self.cls(type.cls, paths)
            return None if made is None else ir.Node(made, type.ties)
        if isinstance(type, ir.Sequence):
            item = self._parts({EACH: type.item}, paths)[EACH]
            return None if item is None else attrs.evolve(type, item=item)
        if isinstance(type, ir.Dict):
            value = self._parts({EACH: type.value}, paths)[EACH]
            return None if value is None else attrs.evolve(type, value=value)
        # Of what is left of a tuple or a Partial the keys count, as of a class.
        left = self._parts(ir.parts(self.schema, type) or {}, paths)
        kept = [ir.Field(key, key, key, one) for key, one in left.items() if one is not None]
        return ir.Node(self._enter(ir.Class("", "builtins:dict", "keywords", (), tuple(kept)))) if kept else None

    def _enter(self, cls: ir.Class) -> str:
        id = f"{cls.id}!{len(self.made)}"
        self.made[id] = attrs.evolve(cls, id=id)
        return id


def _with_shells(left: ir.Schema, rest: ir.Schema, given: Iterable[Path]) -> tuple[ir.Schema, ir.Schema]:
    """Both with an empty node wherever rules give a node a part: its other fields are paired with nothing, and filled in.

    How long lists of such nodes are is for the rules to say, so neither side says it.
    """
    there, wanted = dict(nodes_below(left)), dict(nodes_below(rest))
    above = {path[:length] for path in given for length in range(1, len(path))}
    shells = sorted(path for path in above if path in wanted and path not in there)
    if not shells:
        return left, rest
    return _Shells(left, rest).schema(shells), _Shells(rest, rest).schema(shells)


@attrs.define
class _Shells:
    """A schema with empty nodes as another has them."""

    own: ir.Schema
    model: ir.Schema
    made: dict[str, ir.Class] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.made = {cls.id: cls for cls in self.own.classes}

    def schema(self, shells: Sequence[Path]) -> ir.Schema:
        root = self._node(self.own.root_class, self.model.root, shells)
        return ir.Schema(root, tuple(self.made.values())).at(root)

    def _node(self, own: ir.Class | None, model: str, shells: Sequence[Path]) -> str:
        cls = own or attrs.evolve(self.model[model], dims=(), definitions=(), fields=())
        fields = {one.key: one for one in cls.fields}
        for one in self.model[model].fields:
            if below := [path[1:] for path in shells if path[0] == one.key]:
                stored = fields.get(one.key)
                type = self._type(stored.type if stored else None, one.type, below)
                fields[one.key] = attrs.evolve(stored or one, type=type)
        id = f"{cls.id}!{len(self.made)}"
        self.made[id] = attrs.evolve(cls, id=id, fields=tuple(fields.values()))
        return id

    def _type(self, own: ir.Type | None, model: ir.Type, shells: Sequence[Path]) -> ir.Type:
        """`own` is None of a node that has to be made."""
        if isinstance(model, ir.Optional):
            own = own.item if isinstance(own, ir.Optional) else own
            return self._type(own, model.item, shells)
        if isinstance(model, (ir.Tuple, ir.Partial, ir.Leaf)) or (
            own is not None and own.__class__ is not model.__class__
        ):
            return own or model
        below = [path for path in shells if path]
        items = [path[1:] for path in below]
        if isinstance(model, ir.Node):
            assert isinstance(own, ir.Node | None)
            cls, ties = (None, ()) if own is None else (self.own[own.cls], own.ties)
            return ir.Node(self._node(cls, model.cls, below), ties)
        if isinstance(model, ir.Sequence):
            assert isinstance(own, ir.Sequence | None)
            item = self._type(None if own is None else own.item, model.item, items)
            length = None if own is None or () in shells else own.length
            return attrs.evolve(own or model, item=item, length=length)
        if isinstance(model, ir.Dict):
            assert isinstance(own, ir.Dict | None)
            value = self._type(None if own is None else own.value, model.value, items)
            length = None if own is None or () in shells else own.length
            return attrs.evolve(own or model, value=value, length=length)
        assert_never(model)


def _plain(rule: Rule, leg: Leg, stored: dict[Path, ir.Type], fields: dict[Path, ir.Type]) -> Iterator[PlainMove]:
    sources = _matching(leg.stored, leg, stored, ".", "the earlier revision")
    targets = _matching(leg.field, leg, fields, SEPARATOR, "the later revision")
    by_name = {name: path for path, names in targets.items() for name in names}
    for source, names in sources.items():
        for name, values in names.items():
            target = by_name.get(leg.field.fill(values))
            if target is None:
                raise Unfitting(f"a field of the later revision for {rule}", f"none for {name!r}")
            yield PlainMove(rule, source, target, stored[source], fields[target])
            break


def _shape(rule: Rule, stored: dict[Path, ir.Type], fields: dict[Path, ir.Type]) -> tuple[Shape, list[SizePair]]:
    taken: dict[Path, None] = {}
    given: dict[Path, None] = {}
    arrays: list[list[LegArrays]] = []
    for leg in rule.legs:
        sources = _matching(leg.stored, leg, stored, ".", "the earlier revision")
        targets = _matching(leg.field, leg, fields, SEPARATOR, "the later revision")
        _check_arrays(rule, leg, [stored[one] for one in sources], [fields[one] for one in targets])
        pairs = [(one, other) for one in sources for other in targets if _are_one(sources[one], targets[other])]
        arrays.append([LegArrays(leg, stored[one], fields[other], other) for one, other in pairs])
        taken |= dict.fromkeys(sources)
        given |= dict.fromkeys(targets)
    return Shape(rule, tuple(taken), tuple(given)), size_pairs(rule, arrays)


def _are_one(source: dict[str, dict[str, str]], target: dict[str, dict[str, str]]) -> bool:
    """Whether some names of both have the same where both have a placeholder."""
    values = product(source.values(), target.values())
    return any(all(one[key] == other[key] for key in one.keys() & other.keys()) for one, other in values)


def _matching(
    pattern: Pattern, leg: Leg, nodes: dict[Path, ir.Type], separator: str, side: str
) -> dict[Path, dict[str, dict[str, str]]]:
    """The nodes that a pattern names: by path, and by such names of items as the pattern has, what its placeholders are."""
    regex = pattern.regex(leg.indices)
    words = [word for part in pattern.parts[::2] for word in re.split(r"[.\0]", part) if word]
    number, text = (
        next(one for one in others if one not in words)
        for others in (map(str, count()), ("x" * length for length in count(1)))
    )
    found: dict[Path, dict[str, dict[str, str]]] = {}
    for path in nodes:
        any_items = [
            (text if _has_text_keys(nodes.get(path[:at])) else number) if key == EACH else key
            for at, key in enumerate(path)
        ]
        choices = [
            [any_items[at], *_items(words, path[at - 1])] if key == EACH else [key] for at, key in enumerate(path)
        ]
        for keys in product(*choices):
            name = separator.join(fused(keys))
            if match := regex.fullmatch(name):
                found.setdefault(path, {})[name] = pattern.values(match)
        if path in found and not regex.fullmatch(separator.join(fused(any_items))):
            expected = f"a placeholder for all items in {pattern.text!r}, or a migration that is a function"
            raise Unfitting(expected, "one item")
    if not found:
        known = ", ".join(show(path) for path in list(nodes)[:12])
        hint = " (keys that are text are .{name}, and not [{name}])" if leg.indices else ""
        got = f"only {known or 'nothing'}{', …' if len(nodes) > 12 else ''}{hint}"
        raise Unfitting(f"{pattern.text!r} in {side}", got)
    return found


def _has_text_keys(type: ir.Type | None) -> bool:
    inner = type.item if isinstance(type, ir.Optional) else type
    return getattr(inner, "key", None) == "str"  # as only dicts have


def _items(words: list[str], above: str) -> list[str]:
    """What items may be called that a pattern names, below the key `above`: its words, or of these what an item's key holds."""
    if not is_key_text(above):
        return words
    return [item for word in words if (item := key_text(above).item(word)) is not None]


def _check_arrays(rule: Rule, leg: Leg, stored: Iterable[ir.Type], fields: Iterable[ir.Type]) -> None:
    for theirs in stored:
        for mine in fields:
            if not isinstance(theirs, ir.Array) or not isinstance(mine, ir.Array):
                other = mine if isinstance(theirs, ir.Array) else theirs
                raise Unfitting(f"arrays on both sides of {rule}", ir.describe(other))
            if theirs.dtype != mine.dtype and mine.dtype not in WIDER.get(theirs.dtype, ()):
                raise Unfitting(f"one dtype on both sides of {rule}", f"{theirs.dtype} and {mine.dtype}")
            wanted = _rank(len(theirs.dims), leg)
            if wanted != len(mine.dims):
                expected = "another rank" if wanted is None else f"{wanted} axes"
                raise Unfitting(f"{expected} on the later side of {rule}", ir.describe(mine))


def _rank(rank: int, leg: Leg) -> int | None:
    """How many axes an array has after a rule; None where it has not as many as the layout says."""
    if leg.layout is None:
        return rank
    rest = rank - _named(leg.layout.stored)
    if rest < 0 or (rest and (REST,) not in leg.layout.stored):
        return None
    return _named(leg.layout.field) + rest


def _named(axes: tuple[Axis, ...]) -> int:
    return sum(axis != (REST,) for axis in axes)
