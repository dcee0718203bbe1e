"""Flowcharts of the docs are drawn without mermaid: every box and every arrow is there, and nothing that cannot be drawn is lost."""

import re

import pytest
from docs._site.flowchart import drawn, parsed

from tests.architecture.page import picture

CHART = """```mermaid
flowchart TD
  top["<b>top/</b><br>what is above"]
  subgraph floor["a floor"]
    one["one"]
    other["other & more"]
  end
  bottom["bottom"]
  top --> one
  one --> other
  other --> bottom
```
"""


def test_a_chart_becomes_a_picture() -> None:
    page = drawn(f"Before.\n\n{CHART}\nAfter.\n")
    assert page.startswith('Before.\n\n<div class="scrolls"><svg')
    assert page.endswith("</div>\n\nAfter.\n")
    assert re.findall(r">([^<>]+)</text>", page) == [
        "a floor",
        "top/",
        "what is above",
        "one",
        "other &amp; more",
        "bottom",
    ]
    assert page.count('class="box"') == 4
    assert page.count('class="arrow"') == 3


def test_rows_stand_above_what_they_point_to() -> None:
    chart = parsed(CHART.partition("flowchart TD\n")[2].removesuffix("```\n"))
    drawn(CHART)
    assert chart.rows == [("", ["top"]), ("a floor", ["one", "other"]), ("", ["bottom"])]


def test_all_of_the_architecture_is_drawn() -> None:
    source = picture()
    page = drawn(source + "\n")
    boxes = re.findall(r'^ *(\w+)\["', source, re.MULTILINE)
    arrows = re.findall(r"^  (\w+) --> (\w+)$", source, re.MULTILINE)
    assert page.count('class="box"') == len(boxes)
    between_boxes = [names for names in arrows if set(names) <= set(boxes)]  # a frame has no arrows
    assert page.count('class="arrow"') == len(between_boxes)


def test_what_cannot_be_drawn_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected a line of a flowchart that can be drawn, got '  a ==> b'"):
        drawn("```mermaid\nflowchart TD\n  a ==> b\n```\n")
