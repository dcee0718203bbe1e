"""The two small notations of key maps: patterns of names, and layouts of axes."""

import re
from collections.abc import Mapping
from typing import Final

from attrs import frozen

REST: Final = "..."
SEPARATOR: Final = "\0"  # between the keys of a path while it is matched
BELOW: Final = "**"  # stands for one key or more

_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]\w*)\}")
_GROUP_OF_BELOW: Final = "_below"
_TEXT: Final = r"[^.\0]+"
_INDEX: Final = r"0|[1-9][0-9]*"
_KEY: Final = re.compile(
    r"""\.(?P<name>[^.\[\]'"$]+)|\[(?P<index>[0-9]+|\{\w+\})\]|\[(?P<quote>['"])(?P<key>.*?)(?P=quote)\]"""
)
_ATOM: Final = re.compile(r"\s*(\.\.\.|[A-Za-z_]\w*|1|[()])")

Axis = tuple[str, ...]  # names whose sizes are multiplied; () has size 1


@frozen
class Pattern:
    """A name with placeholders: text and placeholders in turn, beginning and ending with text."""

    parts: tuple[str, ...]
    indices: frozenset[str] = frozenset()  # placeholders that stand for numbers
    separator: str = "."  # between the keys

    @property
    def placeholders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.parts[1::2]))

    @property
    def keys(self) -> tuple["Pattern", ...]:
        """A pattern for each key."""
        found: list[list[str]] = [[""]]
        for number, part in enumerate(self.parts):
            if number % 2:
                found[-1] += [part, ""]
                continue
            first, *others = part.split(self.separator)
            found[-1][-1] += first
            found += [[one] for one in others]
        return tuple(Pattern(tuple(one), self.indices, self.separator) for one in found)

    def regex(self, indices: frozenset[str]) -> "re.Pattern[str]":
        out, seen = [], set()
        for number, part in enumerate(self.parts):
            if number % 2 == 0:
                out.append(re.escape(part))
            elif part == BELOW:
                keys = rf"[^{re.escape(self.separator)}]*"
                out.append(rf"(?P<{_GROUP_OF_BELOW}>{keys}(?:{re.escape(self.separator)}{keys})*)")
            elif part in seen:
                out.append(f"(?P={part})")
            else:
                seen.add(part)
                out.append(f"(?P<{part}>{_INDEX if part in indices | self.indices else _TEXT})")
        return re.compile("".join(out))

    def values(self, match: "re.Match[str]") -> dict[str, str]:
        """What the placeholders stand for in a name that the regex matched: of `**`, keys with SEPARATOR between them."""
        found = match.groupdict()
        if _GROUP_OF_BELOW in found:
            found[BELOW] = found.pop(_GROUP_OF_BELOW).replace(self.separator, SEPARATOR)
        return found

    def fill(self, values: Mapping[str, str]) -> str:
        return "".join(
            self._value(values[part], part) if number % 2 else part for number, part in enumerate(self.parts)
        )

    def _value(self, value: str, part: str) -> str:
        return value.replace(SEPARATOR, self.separator) if part == BELOW else value

    @property
    def text(self) -> str:
        """The pattern itself, with a dot between keys."""
        shown = self.fill({name: name if name == BELOW else f"{{{name}}}" for name in self.placeholders})
        return shown.replace(self.separator, ".")


@frozen
class Layout:
    """Axes of the stored array and of the field. REST stands for the axes that are not named."""

    stored: tuple[Axis, ...]
    field: tuple[Axis, ...]

    def flipped(self) -> "Layout":
        return Layout(self.field, self.stored)


def parse_stored(text: str) -> Pattern:
    """`model.layers.{i}.weight`: a whole name, dots and all."""
    if any(len(_PLACEHOLDER.findall(part)) > 1 for part in text.split(".")):
        raise ValueError(f"expected at most one placeholder between dots, got {text!r}")
    return Pattern(_parts(text, ".", text))


def _parts(joined: str, separator: str, text: str) -> tuple[str, ...]:
    """Text and placeholders in turn; a brace or star that is part of none is a slip of the pen."""
    parts: list[str] = []
    at = 0
    end = re.escape(separator)
    for found in re.finditer(rf"{_PLACEHOLDER.pattern}|(?<![^{end}])(\*\*)(?![^{end}])", joined):
        parts += [joined[at : found.start()], found[1] or found[2]]
        at = found.end()
    parts.append(joined[at:])
    odd = next((char for part in parts[::2] for char in part if char in "{}*"), None)
    if odd is not None:
        expected = "** as a whole key, for all below" if odd == "*" else "a placeholder such as {i}"
        raise ValueError(f"expected {expected}, got {odd!r} in {text!r}")
    if parts.count(BELOW) > 1:
        raise ValueError(f"expected at most one **, got {text!r}")
    return tuple(parts)


def parse_field(text: str) -> Pattern:
    """`$.blocks[{i}].up['a.b']`: keys, joined with the separator."""
    keys: list[str] = []
    indices: set[str] = set()
    path = text[1:] if text.startswith("$") else text if text.startswith("[") else f".{text}"
    at = 0
    while at < len(path):
        found = _KEY.match(path, at)
        if found is None:
            raise ValueError(f"expected a path such as blocks[{{i}}].up.kernel, got {text!r}")
        key = found["name"] or found["index"] or found["key"] or ""
        if found["index"]:
            indices |= set(_PLACEHOLDER.findall(key))
        if len(_PLACEHOLDER.findall(key)) > 1:
            raise ValueError(f"expected at most one placeholder a key, got {text!r}")
        keys.append(key)
        at = found.end()
    if not keys:
        raise ValueError(f"expected a path such as blocks[{{i}}].up.kernel, got {text!r}")
    return Pattern(_parts(SEPARATOR.join(keys), SEPARATOR, text), frozenset(indices), SEPARATOR)


def parse_layout(text: str) -> Layout:
    """`(n_heads d_head) d_model -> d_model n_heads d_head`."""
    sides = text.split("->")
    if len(sides) != 2:
        raise ValueError(f"expected a layout such as 'd_out d_in -> d_in d_out', got {text!r}")
    stored, field = (_side(side, text) for side in sides)
    return Layout(stored, field)


def names_of(axes: tuple[Axis, ...]) -> list[str]:
    return [name for axis in axes for name in axis]


def _side(side: str, text: str) -> tuple[Axis, ...]:
    axes: list[Axis] = []
    group: list[str] | None = None
    at, side = 0, side.strip()
    while at < len(side):
        found = _ATOM.match(side, at)
        atom = found[1] if found else ""
        if found is None or atom == ("(" if group is not None else ")") or (group is not None and atom == REST):
            raise ValueError(f"expected names, 1, ... and groups in brackets, got {text!r}")
        at = found.end()
        if atom == "(":
            group = []
        elif atom == ")":
            axes.append(tuple(group or ()))
            group = None
        elif group is not None:
            group += [] if atom == "1" else [atom]
        else:
            axes.append(() if atom == "1" else (atom,))
    if group is not None:
        raise ValueError(f"expected a closing bracket, got {text!r}")
    twice = {name for name in names_of(tuple(axes)) if names_of(tuple(axes)).count(name) > 1}
    if twice:
        raise ValueError(f"expected each name once a side, got {', '.join(sorted(twice))} twice in {text!r}")
    return tuple(axes)
