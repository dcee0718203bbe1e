"""Flowcharts drawn when the site is built: a page has them as mermaid, whose own drawing would be fetched from elsewhere.

What is understood is what `python -m tests.architecture` writes: boxes `id["label"]`, nested subgraphs, arrows `a --> b`.
A subgraph without others inside is a row, and so is a box outside of them.
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import define, frozen

WIDTH: Final = 800
_CHART: Final = re.compile(r"^```mermaid\nflowchart TD\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINE: Final = re.compile(
    r'\s*(?:subgraph (?P<row>\w+)\["(?P<name>.*)"\]|(?P<box>\w+)\["(?P<label>.*)"\]|(?P<one>\w+) --> (?P<other>\w+)|(?P<end>end)|direction TB)$'
)
_LINE_HEIGHT: Final = 15
_GAP: Final = 46  # between rows: room for the arrows


@frozen
class Box:
    label: Sequence[str]
    x: float = 0
    y: float = 0

    @property
    def width(self) -> float:
        return max(map(len, self.label)) * 7.4 + 16

    @property
    def height(self) -> float:
        return len(self.label) * _LINE_HEIGHT + 10


@define
class Chart:
    rows: list[tuple[str, list[str]]]
    boxes: dict[str, Box]
    arrows: list[tuple[str, str]]


def drawn(markdown: str) -> str:
    return _CHART.sub(lambda chart: _svg(parsed(chart[1])), markdown)


def parsed(text: str) -> Chart:
    chart = Chart([], {}, [])
    inside: list[str] = []
    groups: set[str] = set()
    for line in text.splitlines():
        found = re.sub(r"\s*%%.*", "", line)
        match = _LINE.match(found)
        if match is None:
            raise ValueError(f"expected a line of a flowchart that can be drawn, got {line!r}")
        if match["row"]:
            inside.append(_words(match["name"])[0])
            groups.add(match["row"])
            chart.rows.append((" ".join(_words(match["name"])), []))
        elif match["box"]:
            if not inside:
                chart.rows.append(("", []))
            chart.rows[-1][1].append(match["box"])
            chart.boxes[match["box"]] = Box(_words(match["label"]))
        elif match["end"]:
            inside.pop()
        elif match["one"]:
            chart.arrows.append((match["one"], match["other"]))
    _joined(chart)
    return chart


def _words(label: str) -> list[str]:
    """The lines of a label, without marks."""
    return [re.sub(r"<[^>]*>", "", line) for line in label.split("<br>")]


def _joined(chart: Chart) -> None:
    """Boxes that stand alone share a row: who is imported by all is at the bottom, the others at the top."""
    alone = [names[0] for title, names in chart.rows if not title]
    lowest = [name for name in alone if not any(one == name for one, _ in chart.arrows)]
    rows = [row for row in chart.rows if row[0] and row[1]]
    top = [name for name in alone if name not in lowest]
    chart.rows = [("", top)] * bool(top) + rows + [("", lowest)] * bool(lowest)


def _svg(chart: Chart) -> str:
    height = _place(chart)
    parts = [*_floors(chart), *_arrows(chart), *_boxes(chart)]
    head = '<defs><marker id="head" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
    head += '<path d="M0 0 6 3 0 6z"/></marker></defs>'
    svg = f'<svg class="flowchart" viewBox="0 0 {WIDTH} {height:.0f}" role="img">{head}{"".join(parts)}</svg>'
    return f'<div class="scrolls">{svg}</div>'


def _place(chart: Chart) -> float:
    """Rows from the top down; in a row, boxes that what is above points to from the left come first."""
    y = 10.0
    seen: dict[str, float] = {}
    for _, names in chart.rows:
        names.sort(key=lambda name: _weight(name, chart.arrows, seen))
        for line in _broken(names, chart.boxes):
            free = WIDTH - 40 - sum(chart.boxes[name].width for name in line)
            space = free / (len(line) + 1)
            x = 20 + space
            for name in line:
                box = chart.boxes[name]
                chart.boxes[name] = Box(box.label, x, y + 20)
                seen[name] = x + box.width / 2
                x += box.width + space
            y += max(chart.boxes[name].height for name in line) + _GAP
    return y


def _weight(name: str, arrows: Sequence[tuple[str, str]], seen: Mapping[str, float]) -> float:
    above = [seen[one] for one, other in arrows if other == name and one in seen]
    return sum(above) / len(above) if above else WIDTH / 2


def _broken(names: Sequence[str], boxes: Mapping[str, Box]) -> list[list[str]]:
    """A row that is too wide is several."""
    lines: list[list[str]] = [[]]
    for name in names:
        if sum(boxes[one].width + 24 for one in [*lines[-1], name]) > WIDTH - 40:
            lines.append([])
        lines[-1].append(name)
    return lines


def _floors(chart: Chart) -> Iterator[str]:
    for title, names in chart.rows:
        if title:
            top = min(chart.boxes[name].y for name in names) - 22
            end = max(chart.boxes[name].y + chart.boxes[name].height for name in names) + 8
            yield f'<rect class="floor" x="6" y="{top:.0f}" width="{WIDTH - 12}" height="{end - top:.0f}" rx="6"/>'
            yield f'<text class="name" x="14" y="{top + 14:.0f}">{html.escape(title)}</text>'


def _boxes(chart: Chart) -> Iterator[str]:
    for box in chart.boxes.values():
        size = f'width="{box.width:.0f}" height="{box.height:.0f}"'
        yield f'<rect class="box" x="{box.x:.0f}" y="{box.y:.0f}" {size} rx="4"/>'
        for number, line in enumerate(box.label):
            y = box.y + 16 + number * _LINE_HEIGHT
            yield f'<text x="{box.x + box.width / 2:.0f}" y="{y:.0f}">{html.escape(line)}</text>'


def _arrows(chart: Chart) -> Iterator[str]:
    for one, other in chart.arrows:
        if one in chart.boxes and other in chart.boxes:
            yield f'<path class="arrow" d="{_way(chart.boxes[one], chart.boxes[other])}"/>'


def _way(one: Box, other: Box) -> str:
    """From the bottom of one to the top of the other; side by side, round below."""
    x, y, to = one.x + one.width / 2, one.y + one.height, other.x + other.width / 2
    if other.y > one.y:
        bend = min(40, (other.y - y) / 2)
        return f"M{x:.0f} {y:.0f}C{x:.0f} {y + bend:.0f} {to:.0f} {other.y - bend:.0f} {to:.0f} {other.y:.0f}"
    end = other.y + other.height
    return f"M{x:.0f} {y:.0f}C{x:.0f} {y + 26:.0f} {to:.0f} {end + 26:.0f} {to:.0f} {end:.0f}"
