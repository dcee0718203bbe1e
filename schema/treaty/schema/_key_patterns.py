"""The two small notations of key maps: patterns of names, and layouts of axes."""

import re
from collections.abc import Mapping
from typing import Final

from attrs import frozen

REST: Final = "..."
SEPARATOR: Final = "\0"  # between the keys of a path while it is matched

_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]\w*)\}")
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

    @property
    def placeholders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.parts[1::2]))

    def regex(self, indices: frozenset[str]) -> "re.Pattern[str]":
        out, seen = [], set()
        for number, part in enumerate(self.parts):
            if number % 2 == 0:
                out.append(re.escape(part))
            elif part in seen:
                out.append(f"(?P={part})")
            else:
                seen.add(part)
                out.append(f"(?P<{part}>{_INDEX if part in indices | self.indices else _TEXT})")
        return re.compile("".join(out))

    def fill(self, values: Mapping[str, str]) -> str:
        return "".join(values[part] if number % 2 else part for number, part in enumerate(self.parts))


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
    return Pattern(tuple(_PLACEHOLDER.split(text)))


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
    return Pattern(tuple(_PLACEHOLDER.split(SEPARATOR.join(keys))), frozenset(indices))


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
