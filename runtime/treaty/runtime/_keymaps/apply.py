"""Key maps applied: the named tensors of a checkpoint become a state dict, and back, and every problem is told at once."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Final, TypeAlias

from attrs import define, field, frozen

from treaty.runtime._errors import KeyMapError, show_keys
from treaty.runtime._keymaps.views import AxesMisfit, cut, join, lengths_along, rearrange, stack, take
from treaty.runtime._lazy import LazyArray
from treaty.runtime._same import same_bytes
from treaty.runtime._trees import dotted, flatten, is_stored_array, map_leaves, nest_named, shown
from treaty.schema._key_patterns import BELOW, SEPARATOR, Layout, Pattern, parse_field, parse_stored
from treaty.schema.keymap import KeyMap, Rule

_DIGITS: Final = 18  # of a number in a name: far more than anything counts
_Hit: TypeAlias = tuple[int, int, dict[str, str]]  # a rule, a leg of it, and what its placeholders stand for


def to_fields(keymap: KeyMap, tensors: Mapping[str, Any], sizes: Mapping[str, int] | None = None) -> dict[str, Any]:
    """The state dict of stored tensors. `sizes` are of axes that no array shows, beside those that the map gives."""
    problems = list(_unequal_ties(keymap, tensors))
    known = {**keymap.sizes, **(sizes or {})}
    ignored = [
        *_ignored(keymap.ignore_stored, parse_stored),
        *(parse_stored(name).regex(frozenset()) for name in keymap.ties),
    ]
    flat = _Run(keymap, True, known, problems).apply(tensors, ignored)
    _finish(problems, keymap, flat)
    return nest_named(flat, SEPARATOR)


def to_stored(keymap: KeyMap, tree: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors by name, of a state dict."""
    problems: list[str] = []
    flat = {SEPARATOR.join(path): leaf for path, leaf in flatten(tree)}
    stored = _Run(keymap, False, keymap.sizes, problems).apply(flat, _ignored(keymap.ignore_fields, parse_field))
    _finish(problems, keymap, stored)
    return stored


def field_state(keymap: KeyMap, state: Mapping[str, Any], sizes: Mapping[str, int] | None) -> dict[str, Any]:
    """`to_fields` in memory, of nested dicts, or of tensors by whole names."""
    return _read(to_fields(keymap, dotted(dict(state)), sizes))


def stored_state(keymap: KeyMap, state: Mapping[str, Any]) -> dict[str, Any]:
    """`to_stored` in memory, as nested dicts."""
    return _read(nest_named(to_stored(keymap, state)))


def _read(tree: dict[str, Any]) -> dict[str, Any]:
    """Lazy arrays are of files: whoever has a state dict in memory wants arrays in it."""
    found: dict[str, Any] = map_leaves(lambda leaf: leaf.read() if isinstance(leaf, LazyArray) else leaf, tree)
    return found


def by_rule(rule: Rule, tensors: Mapping[str, Any], sizes: Mapping[str, int], *, inward: bool) -> dict[str, Any]:
    """What one rule makes of the tensors that it names: fields, by paths joined with the separator, or back."""
    problems: list[str] = []
    found = _Run(KeyMap((rule,)), inward, sizes, problems).apply(tensors, [])
    if problems:
        raise KeyMapError(problems)
    return found


@frozen
class _Side:
    """One end of a leg, and its layout as seen from there."""

    source: Pattern
    target: Pattern
    layout: Layout | None
    indices: frozenset[str]

    @property
    def stacked(self) -> list[str]:
        return [name for name in self.source.placeholders if name not in self.target.placeholders]

    @property
    def spread(self) -> list[str]:
        return [name for name in self.target.placeholders if name not in self.source.placeholders]


@define
class _Cell:
    """A source tensor, or a part of one, and what its placeholders stood for."""

    name: str
    values: dict[str, str]
    value: Any


@define
class _Run:
    """A key map in one direction."""

    keymap: KeyMap
    inward: bool
    sizes: Mapping[str, int]
    problems: list[str]
    found: dict[str, tuple[Any, str]] = field(factory=dict)  # target -> (value, where it came from)

    def apply(self, sources: Mapping[str, Any], ignored: list[Any]) -> dict[str, Any]:
        legs = [self._sides(rule) for rule in self.keymap.rules]
        matched = self._match(legs, sources, ignored)
        for rule, sides, cells in zip(self.keymap.rules, legs, matched, strict=True):
            missing = [side for side, of_side in zip(sides, cells, strict=True) if not of_side]
            if len(missing) == len(sides) and rule.is_rest:  # there need not be a rest
                continue
            for side in dict.fromkeys(self._pattern(side.source) for side in missing):
                self.problems.append(f"expected something for each rule, got nothing for {side}")
            if not missing:
                try:
                    self._rule(rule, sides, cells)
                except AxesMisfit as error:
                    self.problems.append(f"{error} at {error.at or rule}")
        return {name: value for name, (value, _) in self.found.items()}

    def _sides(self, rule: Rule) -> list[_Side]:
        if self.inward:
            return [_Side(leg.stored, leg.field, leg.layout, leg.indices) for leg in rule.legs]
        return [_Side(leg.field, leg.stored, leg.layout and leg.layout.flipped(), leg.indices) for leg in rule.legs]

    def _match(
        self, legs: list[list[_Side]], sources: Mapping[str, Any], ignored: list[Any]
    ) -> list[list[list[_Cell]]]:
        """Which leg each source belongs to; where a rule cuts its source, that is all of its legs."""
        matched: list[list[list[_Cell]]] = [[[] for _ in sides] for sides in legs]
        regexes = [
            (number, index, side, side.source.regex(side.indices))
            for number, sides in enumerate(legs)
            for index, side in enumerate(sides)
            if index == 0 or side.source != sides[0].source
        ]
        for name, value in sources.items():
            is_ignored = any(one.fullmatch(name) for one in ignored)
            hits = self._narrowest(
                [
                    (number, index, side.source.values(match))
                    for number, index, side, regex in regexes
                    if (match := regex.fullmatch(name)) and not (is_ignored and self.keymap.rules[number].has_subtree)
                ]
            )
            if is_ignored:
                if hits:
                    self.problems.append(f"expected a rule or to be ignored, got both for {self._shown(name)}")
            elif len(hits) != 1:
                got = "none" if not hits else " and ".join(str(self.keymap.rules[number]) for number, _, _ in hits)
                self.problems.append(f"expected one rule, got {got} for {self._shown(name)}")
            for number, index, values in hits[:1]:
                self._check_keys(name, values)
                matched[number][index].append(_Cell(name, values, value))
        for sides, cells in zip(legs, matched, strict=True):
            if len(sides) > 1 and all(side.source == sides[0].source for side in sides):
                cells[1:] = [list(cells[0]) for _ in sides[1:]]
        return matched

    def _narrowest(self, hits: list[_Hit]) -> list[_Hit]:
        if len(hits) < 2:
            return hits
        narrowness = [self.keymap.rules[number].narrowness for number, _, _ in hits]
        return [hit for hit, one in zip(hits, narrowness, strict=True) if one == max(narrowness)]

    def _check_keys(self, name: str, values: Mapping[str, str]) -> None:
        """Stored names are keys joined with dots: a key with a dot of its own would come back as two."""
        odd = [key for key in values.get(BELOW, "").split(SEPARATOR) if "." in key]
        if odd and not self.inward:
            self.problems.append(
                f"expected keys without dots below **, got {odd[0]!r} at {self._shown(name)}; write a rule for it"
            )

    def _rule(self, rule: Rule, sides: list[_Side], cells: list[list[_Cell]]) -> None:
        is_cut = len(sides) > 1 and sides[0].source == sides[1].source
        if is_cut:
            cells = self._cut(rule, sides, cells[0])
        results = [self._leg(side, of_side) for side, of_side in zip(sides, cells, strict=True)]
        if len(sides) == 1 or is_cut:
            for result in results:
                for target, (value, origin) in result.items():
                    self._put(target, value, origin)
            return
        for target in dict.fromkeys(name for result in results for name in result):
            if any(target not in result for result in results):
                self.problems.append(f"expected all of {rule}, got only some for {self._shown(target, False)}")
                continue
            parts = [result[target][0] for result in results]
            assert rule.axis is not None
            self._put(
                target, self._joined(rule.axis, parts, target), " + ".join(result[target][1] for result in results)
            )

    def _cut(self, rule: Rule, sides: list[_Side], cells: list[_Cell]) -> list[list[_Cell]]:
        found: list[list[_Cell]] = [[] for _ in sides]
        assert rule.axis is not None
        for cell in cells:
            if not is_stored_array(cell.value):
                raise AxesMisfit(f"expected an array to cut, got {shown(cell.value)}", self._shown(cell.name))
            try:
                layouts = [None if side.layout is None else side.layout.stored for side in sides]
                lengths = lengths_along(cell.value, rule.axis, layouts, self.sizes)
            except AxesMisfit as error:
                raise AxesMisfit(str(error), self._shown(cell.name)) from None
            parts = cut(cell.value, rule.axis % cell.value.ndim, lengths)
            for into, part in zip(found, parts, strict=True):
                into.append(_Cell(cell.name, cell.values, part))
        return found

    def _joined(self, axis: int, parts: list[Any], target: str) -> Any:
        for part in parts:
            fits = is_stored_array(part) and -part.ndim <= axis < part.ndim
            if not fits or part.dtype != parts[0].dtype or _without(part, axis) != _without(parts[0], axis):
                raise AxesMisfit(
                    f"expected parts that fit along axis {axis}, got {', '.join(map(shown, parts))}",
                    self._shown(target, False),
                )
        return join(parts, axis % parts[0].ndim)

    def _leg(self, side: _Side, cells: list[_Cell]) -> dict[str, tuple[Any, str]]:
        groups: dict[tuple[str, ...], list[_Cell]] = {}
        shared = [name for name in side.source.placeholders if name not in side.stacked]
        for cell in cells:
            groups.setdefault(tuple(cell.values[name] for name in shared), []).append(cell)
        found: dict[str, tuple[Any, str]] = {}
        for group in groups.values():
            for values, value in self._group(side, group):
                found[side.target.fill({**group[0].values, **values})] = value, self._shown(group[0].name)
        return found

    def _group(self, side: _Side, group: list[_Cell]) -> Iterable[tuple[dict[str, str], Any]]:
        """Stack what has an axis on the other side, lay it out, and take apart what has names there."""
        at = self._shown(group[0].name)
        if side.layout is None:
            return [({}, group[0].value)]
        for cell in group:
            if not is_stored_array(cell.value):
                raise AxesMisfit(f"expected an array, got {shown(cell.value)}", self._shown(cell.name))
        value = self._stacked(side.stacked, group, at)
        left = (*((name,) for name in side.stacked), *side.layout.stored)
        right = (*((name,) for name in side.spread), *side.layout.field)
        try:
            value = rearrange(value, Layout(left, right), self.sizes)
        except AxesMisfit as error:
            raise AxesMisfit(str(error), at) from None
        found: list[tuple[dict[str, str], Any]] = [({}, value)]
        for name in side.spread:
            found = [
                ({**values, name: str(index)}, take(one, index))
                for values, one in found
                for index in range(one.shape[0])
            ]
        return found

    def _stacked(self, names: list[str], group: list[_Cell], at: str) -> Any:
        if not names:
            return group[0].value
        for cell in group:
            if any(len(cell.values[name]) > _DIGITS for name in names):
                raise AxesMisfit(f"expected numbers of at most {_DIGITS} digits to stack", self._shown(cell.name[:80]))
        by_index = {tuple(int(cell.values[name]) for name in names): cell for cell in group}
        counts = [1 + max(index[axis] for index in by_index) for axis in range(len(names))]
        if math.prod(counts) > len(by_index):
            # There are fewer than any one count could be, whatever numbers the file has: one of these is not there.
            near = product(*(range(min(count, len(by_index) + 1)) for count in counts))
            missing = next(index for index in near if index not in by_index)
            shown_ = ", ".join(f"{name}={number}" for name, number in zip(names, missing, strict=True))
            raise AxesMisfit(f"expected all from 0 on to stack, got none with {shown_}", at)
        cells = [by_index[index] for index in product(*map(range, counts))]
        for cell in cells:
            if shown(cell.value) != shown(cells[0].value):
                expected, got = shown(cells[0].value), shown(cell.value)
                raise AxesMisfit(f"expected {expected} to stack, got {got}", self._shown(cell.name))
        values = [cell.value for cell in cells]
        for count in reversed(counts):
            values = [stack(values[start : start + count]) for start in range(0, len(values), count)]
        return values[0]

    def _put(self, target: str, value: Any, origin: str) -> None:
        if target in self.found:
            both = f"{self.found[target][1]} and {origin}"
            self.problems.append(f"expected one source, got {both} for {self._shown(target, False)}")
        self.found[target] = value, origin

    def _shown(self, name: str, source: bool = True) -> str:
        return repr(name) if source == self.inward else show_keys(tuple(name.split(SEPARATOR)))

    def _pattern(self, pattern: Pattern) -> str:
        name = self._shown(
            pattern.fill({name: name if name == BELOW else f"{{{name}}}" for name in pattern.placeholders})
        )
        return name if self.inward else name.replace("['{", "[{").replace("}']", "}]")


def _finish(problems: list[str], keymap: KeyMap, found: Mapping[str, Any]) -> None:
    if not problems:
        return
    if not found:
        problems.append("nothing fits: the names may be those of the map's other side")
    raise KeyMapError(problems)


def _unequal_ties(keymap: KeyMap, tensors: Mapping[str, Any]) -> Iterator[str]:
    for name, kept in keymap.ties.items():
        if name in tensors and (kept not in tensors or not same_bytes(tensors[name], tensors[kept])):
            yield f"expected a copy of {kept!r}, got something else at {name!r}; it needs a field of its own"


def _ignored(names: Iterable[str], parse: Callable[[str], Pattern]) -> list[re.Pattern[str]]:
    return [parse(name).regex(frozenset()) for name in names]


def _without(part: Any, axis: int) -> list[int]:
    shape = list(part.shape)
    del shape[axis]
    return shape
