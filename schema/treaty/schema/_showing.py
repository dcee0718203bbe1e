"""How states and schemas are shown: as trees with shapes, dtypes and sizes. The numbers in arrays are never part of it."""

import dataclasses
import html
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final, TypeAlias

import attrs
from attrs import field, frozen

_WIDTH: Final = 100  # of a line; what is longer has a line for each item
_ITEMS: Final = 24  # of one node, after alike ones are folded
_TEXT: Final = 80  # characters of a value
_DEPTH: Final = 40
_OPEN: Final = 2  # levels of HTML that are open
_STYLE: Final = "font-family: monospace; line-height: 1.4"


@frozen
class ShownLeaf:
    """An array by its dtype and shape, or a short value."""

    flat: str
    arrays: int = 0
    nbytes: int = 0


@frozen
class ShownItem:
    """What a node has under a label; `count` of them that are alike."""

    label: str
    of: "Shown"
    count: int = 1


@frozen
class ShownNode:
    """A class, list, tuple or dict."""

    begin: str
    items: tuple[ShownItem, ...]
    end: str
    arrays: int = field(init=False)
    nbytes: int = field(init=False)
    flat: str = field(init=False)

    @arrays.default
    def _arrays(self) -> int:
        return sum(item.of.arrays * item.count for item in self.items)

    @nbytes.default
    def _nbytes(self) -> int:
        return sum(item.of.nbytes * item.count for item in self.items)

    @flat.default
    def _flat(self) -> str:
        return f"{self.begin}{', '.join(item.label + item.of.flat for item in self.items)}{self.end}"


Shown: TypeAlias = ShownLeaf | ShownNode


def state_text(obj: object) -> str:
    """The `__repr__` of state classes."""
    return "\n".join(_lines(shown(obj), "", ""))


def state_html(obj: object) -> str:
    """What notebooks show of them."""
    return f'<div style="{_STYLE}">{_html("", shown(obj), 0)}</div>'


def shown(obj: Any, above: tuple[int, ...] = ()) -> Shown:
    cls = type(obj)
    if _is_array(obj):
        return _array(obj)
    children = _children(obj) if len(above) < _DEPTH and id(obj) not in above else None
    if children is None:
        return ShownLeaf(_short(obj))
    inside = (*above, id(obj))
    items = _folded((label, shown(child, inside)) for label, child in children)
    if isinstance(obj, Mapping):
        return ShownNode("{" if cls is dict else f"{cls.__name__}({{", items, "}" if cls is dict else "})")
    if cls is list:
        return ShownNode("[", items, "]")
    if cls is tuple:
        return ShownNode("(", items, ",)" if len(obj) == 1 else ")")
    return ShownNode(f"{cls.__name__}(", items, ")")


def size_text(nbytes: int) -> str:
    """`12 B`, `1.5 MiB`."""
    size, units = float(nbytes), iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while size >= 1024 and unit != "TiB":
        size, unit = size / 1024, next(units)
    if unit == "B":
        return f"{nbytes} B"
    return f"{size:.0f} {unit}" if size >= 999.5 else f"{size:.3g} {unit}"  # from there on, three digits are 1e+03


def _children(obj: Any) -> Iterable[tuple[str, Any]] | None:
    """The labels and values of a node; None of a leaf, and of a class that has a `__repr__` of its own."""
    cls = type(obj)
    if cls in (list, tuple):
        return [("", one) for one in obj]
    if isinstance(obj, tuple) and hasattr(cls, "_fields"):
        return [(f"{name}=", getattr(obj, name)) for name in cls._fields]
    if isinstance(obj, Mapping):
        return [(f"{_short(key)}: ", one) for key, one in obj.items()]
    if attrs.has(cls):
        is_ours = getattr(cls.__repr__, "__module__", None) == __name__
        fields = [one for one in attrs.fields(cls) if one.repr]
        return [(f"{one.name}=", getattr(obj, one.name)) for one in fields] if is_ours else None
    if dataclasses.is_dataclass(cls):
        return [(f"{one.name}=", getattr(obj, one.name)) for one in dataclasses.fields(cls) if one.repr]
    return None


def _folded(children: Iterable[tuple[str, Shown]]) -> tuple[ShownItem, ...]:
    """Neighbours that are alike as one; beyond some there is only their number."""
    items: list[ShownItem] = []
    for _, group in groupby(children, key=lambda one: one[1]):
        same = list(group)
        label, first = same[0]
        if len(same) == 1 or label.endswith("=") or not isinstance(first, ShownNode):
            items += [ShownItem(label, one) for label, one in same]
        elif label:
            items.append(ShownItem(f"{label.removesuffix(': ')} … {same[-1][0]}{len(same)} x ", first, len(same)))
        else:
            items.append(ShownItem(f"{len(same)} x ", first, len(same)))
    if len(items) > _ITEMS:
        rest = ShownLeaf(
            "",
            sum(one.of.arrays * one.count for one in items[_ITEMS:]),
            sum(one.of.nbytes * one.count for one in items[_ITEMS:]),
        )
        items = [*items[:_ITEMS], ShownItem(f"… {sum(one.count for one in items[_ITEMS:])} more", rest)]
    return tuple(items)


def _is_array(obj: Any) -> bool:
    return not isinstance(obj, type) and hasattr(obj, "dtype") and isinstance(getattr(obj, "shape", None), tuple)


def _array(obj: Any) -> ShownLeaf:
    dtype: Any = obj.dtype
    shape = ", ".join(map(str, obj.shape))
    nbytes = getattr(obj, "nbytes", None)
    if type(nbytes) is not int:
        nbytes = getattr(dtype, "itemsize", 0) * math.prod(one for one in obj.shape if isinstance(one, int))
    return ShownLeaf(f"{getattr(dtype, 'name', dtype)}[{shape}]", 1, nbytes)


def _short(obj: object) -> str:
    try:
        text = repr(obj)
    except Exception as error:  # of a class of anybody's: whoever looks at a state must not stumble over it
        text = f"<{type(obj).__name__}: its repr raised {type(error).__name__}>"
    text = " ".join(text.splitlines())
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"


def _lines(one: Shown, label: str, indent: str) -> Iterator[str]:
    if isinstance(one, ShownLeaf) or not one.items or len(indent) + len(label) + len(one.flat) <= _WIDTH:
        yield f"{indent}{label}{one.flat}"
        return
    yield f"{indent}{label}{one.begin}"
    for item in one.items:
        *lines, last = _lines(item.of, item.label, f"{indent}  ")
        yield from lines
        yield f"{last},"
    yield f"{indent}{one.end.removeprefix(',')}"


def _html(label: str, one: Shown, level: int) -> str:
    name = html.escape(label)
    if isinstance(one, ShownLeaf) or not one.items:
        size = f" <small>{size_text(one.nbytes)}</small>" if one.arrays else ""
        return f"<div>{name}{html.escape(one.flat)}{size}</div>"
    title = html.escape(f"{one.begin}…{one.end}")
    counted = f"{one.arrays} array{'' if one.arrays == 1 else 's'}, {size_text(one.nbytes)}"
    inside = "".join(_html(item.label, item.of, level + 1) for item in one.items)
    is_open = " open" if level < _OPEN else ""
    return (
        f"<details{is_open}><summary>{name}{title} <small>{counted}</small></summary>"
        f'<div style="margin-left: 1.5em">{inside}</div></details>'
    )
