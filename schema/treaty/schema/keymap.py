"""Key maps: how the tensors of another library's checkpoint are the fields of a schema, as data, for both directions.

    Rule("model.layers.{i}.mlp.up_proj.weight", "blocks[{i}].mlp.up", "d_ff d_model -> d_model d_ff")

`{i}` stands for the same text on both sides. A placeholder that only one side has is an axis of the
other side's arrays, which hold all layers stacked. docs/convert.md tells the whole notation.
"""

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final

import attrs
from attrs import frozen

from treaty.schema._errors import SchemaError
from treaty.schema._key_patterns import BELOW, REST, Layout, Pattern, names_of, parse_field, parse_layout, parse_stored

_NO_DATA: Final = "of"  # what of a map JSON does not have


def _rules(rules: "Iterable[Rule]") -> "tuple[Rule, ...]":
    return tuple(rules)


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)


def _one_or_more(value: str | Sequence[str]) -> str | tuple[str, ...]:
    return value if isinstance(value, str) else tuple(value)


@frozen
class Leg:
    """One stored name, one field, and how their axes correspond. A rule without names for its axes has no layout."""

    stored: Pattern
    field: Pattern
    layout: Layout | None
    indices: frozenset[str]  # placeholders that stand for numbers: 0, 1, 2, …


@frozen(slots=False)
class Rule:
    """Stored names with `{placeholders}`, fields by path, and a layout `stored axes -> field axes`.

    One stored tensor may hold several fields: they are its parts along `axis`. Or one field holds several stored
    tensors: these are the field's parts along `axis`. There is a layout for each part, or one for all.
    """

    stored: str | tuple[str, ...] = attrs.field(converter=_one_or_more)
    field: str | tuple[str, ...] = attrs.field(converter=_one_or_more)
    layout: str | tuple[str, ...] | None = attrs.field(default=None, converter=attrs.converters.optional(_one_or_more))
    axis: int | None = None

    def __attrs_post_init__(self) -> None:
        self.legs  # noqa: B018 - a rule that cannot be read is refused where it is written

    @cached_property
    def legs(self) -> tuple[Leg, ...]:
        stored, fields = _tuple(self.stored), _tuple(self.field)
        count = max(len(stored), len(fields))
        if min(len(stored), len(fields)) != 1:
            self._wrong("one stored name or one field")
        if (count > 1) != (self.axis is not None):
            self._wrong("an axis where, and only where, there are several names on one side")
        if isinstance(self.layout, tuple) and len(self.layout) != count:
            self._wrong(f"a layout for each of {count}")
        layouts = self.layout if isinstance(self.layout, tuple) else (self.layout,) * count
        every = zip(stored * (count // len(stored)), fields * (count // len(fields)), layouts, strict=True)
        return tuple(self._leg(*one) for one in every)

    @property
    def has_subtree(self) -> bool:
        """Whether it has a `**`."""
        return any(BELOW in leg.field.placeholders for leg in self.legs)

    @property
    def is_rest(self) -> bool:
        """Whether it takes all that no other rule takes, from one side or to the other."""
        return any(_is_rest(side) for leg in self.legs for side in (leg.stored, leg.field))

    @property
    def narrowness(self) -> tuple[bool, int]:
        """Of two rules for one name the narrower counts: one without `**`, or else with more other keys. The same on both sides."""
        keys = [key for leg in self.legs for side in (leg.stored, leg.field) for key in side.keys]
        return not self.has_subtree, sum(not _is_rest(key) for key in keys)

    def with_prefix(self, stored: str, field: str) -> "Rule":
        """The same rule below other names on either side."""
        return attrs.evolve(
            self,
            stored=_each(partial(_below, stored), self.stored),
            field=_each(partial(_field_below, field), self.field),
        )

    def _leg(self, stored: str, path: str, layout: str | None) -> Leg:
        try:
            from_, to = parse_stored(stored), parse_field(path)
            only_stored = [name for name in from_.placeholders if name not in to.placeholders]
            only_field = [name for name in to.placeholders if name not in from_.placeholders]
            if BELOW in (*only_stored, *only_field):
                raise ValueError(f"expected ** on both sides or on none, got {stored!r} and {path!r}")
            if layout is None and (only_stored or only_field):
                layout = f"{' '.join([*only_field, REST])} -> {' '.join([*only_stored, REST])}"
            axes = None if layout is None else parse_layout(layout)
        except ValueError as error:
            raise SchemaError(str(error)) from None
        if axes is not None:
            self._check(axes, set(from_.placeholders), set(to.placeholders))
        return Leg(from_, to, axes, to.indices | {*only_stored, *only_field})

    def _check(self, layout: Layout, stored: set[str], fields: set[str]) -> None:
        """Every axis must be on both sides, unless it is a placeholder on the other side."""
        left, right = set(names_of(layout.stored)), set(names_of(layout.field))
        if left - right != fields - stored or right - left != stored - fields:
            odd = ", ".join(sorted((left ^ right) ^ (stored ^ fields)))
            self._wrong(f"the same axes on both sides, or placeholders on the other, for {odd}")
        if (left & right) & (stored | fields):
            self._wrong("names for axes that are not placeholders on both sides")

    def _wrong(self, expected: str) -> None:
        raise SchemaError(f"expected {expected}, got {self}")

    def __str__(self) -> str:
        stored, fields = (" + ".join(_tuple(side)) for side in (self.stored, self.field))
        return f"{stored} <-> {fields}"


@frozen(slots=False)
class KeyMap:
    """Rules that together say where every tensor goes, and back.

    `ties` maps stored names to those that they repeat: where such a tensor is stored it must equal the other, and it is
    never written. `ignore_stored` and `ignore_fields` name what is left out on purpose; `opt.**` is all of `opt`.
    `sizes` gives the sizes of axes that no array shows by itself, such as `d_head` in `(n_heads d_head)`. `of` is the class
    whose fields these are: `treaty check` compares them. It is no part of the data.
    """

    rules: tuple[Rule, ...] = attrs.field(converter=_rules)
    ties: Mapping[str, str] = attrs.field(factory=dict, kw_only=True)
    ignore_stored: tuple[str, ...] = attrs.field(default=(), converter=_names, kw_only=True)
    ignore_fields: tuple[str, ...] = attrs.field(default=(), converter=_names, kw_only=True)
    sizes: Mapping[str, int] = attrs.field(factory=dict, kw_only=True)
    of: Any = attrs.field(default=None, kw_only=True, eq=False)

    def __attrs_post_init__(self) -> None:
        problems = list(_twice("stored name", [name for rule in self.rules for name in _tuple(rule.stored)]))
        problems += _twice("field", [path for rule in self.rules for path in _tuple(rule.field)])
        axes = self.axes
        for name, size in self.sizes.items():
            if name not in axes:
                problems.append(f"expected {_one_of(axes)}, got {name!r} in sizes")
            if type(size) is not int or size < 1:
                problems.append(f"expected a size of 1 or more, got {size!r} at {name}")
        if problems:
            raise SchemaError(*problems)

    @property
    def axes(self) -> set[str]:
        """The names that layouts give to axes."""
        layouts = [leg.layout for rule in self.rules for leg in rule.legs if leg.layout is not None]
        return {name for layout in layouts for name in names_of(layout.stored) + names_of(layout.field)} - {REST}

    def check(self, cls: Any = None) -> None:
        """Raise a SchemaError with each rule that leads to no leaf of a class, and each leaf that no rule leads to."""
        problems = self.problems(cls)
        if problems:
            raise SchemaError(*problems)

    def problems(self, cls: Any = None) -> tuple[str, ...]:
        """What `check` would raise; `cls` is `of` where it is not given."""
        from treaty.schema._keymap_targets import target_problems

        if cls is None and self.of is None:
            raise SchemaError(
                "expected the class whose fields these are, got none: check(Params), or KeyMap(..., of=Params)"
            )
        return tuple(target_problems(self, self.of if cls is None else cls))

    def with_prefix(self, stored: str = "", field: str = "") -> "KeyMap":
        """The map of a tree of which this one is a part: its stored names are below `stored`, its fields below `field`."""
        return attrs.evolve(
            self,
            rules=[rule.with_prefix(stored, field) for rule in self.rules],
            ties={_below(stored, name): _below(stored, kept) for name, kept in self.ties.items()},
            ignore_stored=[_below(stored, name) for name in self.ignore_stored],
            ignore_fields=[_field_below(field, path) for path in self.ignore_fields],
            of=None if field else self.of,
        )

    def with_sizes(self, **sizes: int) -> "KeyMap":
        return attrs.evolve(self, sizes={**self.sizes, **sizes})

    def to_json(self) -> str:
        rules = [_said(rule) for rule in self.rules]
        return json.dumps({**_said(self), "rules": rules}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "KeyMap":
        try:
            return cls.from_data(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"expected a key map in JSON, got {error}") from None

    @classmethod
    def from_toml(cls, text: str) -> "KeyMap":
        try:
            return cls.from_data(tomllib.loads(text))
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"expected a key map in TOML, got {error}") from None

    @classmethod
    def from_data(cls, data: Any) -> "KeyMap":
        """From what JSON or TOML holds; the names are those of the attributes."""
        problems: list[str] = []
        if not isinstance(data, dict) or not isinstance(data.get("rules"), list):
            raise SchemaError("expected an object with a list of rules, got something else")
        problems += _unknown(data, cls, "the key map")
        rules = []
        for number, rule in enumerate(data["rules"]):
            at = f"rules[{number}]"
            if not isinstance(rule, dict) or not {"stored", "field"} <= rule.keys():
                problems.append(f"expected stored and field, got {str(rule)[:80]} at {at}")
                continue
            wrong = [*_unknown(rule, Rule, at), *_wrong_types(rule, _RULE, at)]
            problems += wrong
            if not wrong:
                try:
                    rules.append(Rule(**rule))
                except SchemaError as error:
                    problems += error.problems
        problems += _wrong_types(data, _MAP, "the key map")
        if problems:
            raise SchemaError(*problems)
        return cls(**{**data, "rules": rules})


def _is_rest(pattern: Pattern) -> bool:
    return pattern.parts == ("", BELOW, "")


def _each(change: Callable[[str], str], names: str | tuple[str, ...]) -> str | tuple[str, ...]:
    return change(names) if isinstance(names, str) else tuple(map(change, names))


def _below(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _field_below(prefix: str, path: str) -> str:
    path = path.removeprefix("$").removeprefix(".")
    return f"{prefix}{path}" if path.startswith("[") else _below(prefix, path)


def _one_of(names: Iterable[str]) -> str:
    return f"a name of an axis, one of {', '.join(sorted(names))}" if names else "no sizes, as no layout names an axis"


def _tuple(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _twice(what: str, names: list[str]) -> Iterator[str]:
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"expected one rule for each {what}, got {names.count(name)} for {name!r}"


def _said(value: Rule | KeyMap) -> dict[str, Any]:
    said = attrs.asdict(value, recurse=False, filter=lambda attribute, _: attribute.name != _NO_DATA)
    return {name: one for name, one in said.items() if one not in (None, (), {})}


def _unknown(data: Mapping[str, Any], cls: type[attrs.AttrsInstance], at: str) -> Iterator[str]:
    known = [one.name for one in attrs.fields(cls) if one.name != _NO_DATA]
    for name in data:
        if name not in known:
            yield f"expected {', '.join(known)}, got {name!r} at {at}"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(map(_is_text, value))


_TEXTS: Final = ("text, or a list of it", lambda value: _is_text(value) or _is_list(value))
_LIST: Final = ("a list of text", lambda value: value == [] or _is_list(value))
_RULE: Final[Mapping[str, Any]] = {
    "stored": _TEXTS,
    "field": _TEXTS,
    "layout": _TEXTS,
    "axis": ("a number", lambda value: type(value) is int),
}
_MAP: Final[Mapping[str, Any]] = {
    "ties": ("names by name", lambda value: isinstance(value, dict) and all(map(_is_text, value.values()))),
    "ignore_stored": _LIST,
    "ignore_fields": _LIST,
    "sizes": ("numbers by name", lambda value: isinstance(value, dict)),
}


def _wrong_types(data: Mapping[str, Any], types: Mapping[str, Any], at: str) -> Iterator[str]:
    for name, (expected, is_right) in types.items():
        if name in data and not is_right(data[name]):
            yield f"expected {expected}, got {str(data[name])[:80]} as {name} at {at}"
