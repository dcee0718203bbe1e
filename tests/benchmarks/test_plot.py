"""The pictures of the README are those of the pages that they are made from."""

import xml.etree.ElementTree as ElementTree

import pytest
from benchmarks.plot import BARS, PICTURES, ROOT, benchmarks, pictures, story, times_faster

MEASURED = (ROOT / "docs" / "benchmarks.md").read_text()


def test_the_pictures_are_fresh() -> None:
    committed = {path.name: path.read_text() for path in PICTURES.glob("*.svg")}
    assert committed == pictures(), "run python -m benchmarks.plot"
    for text in committed.values():
        ElementTree.fromstring(text)


def test_bars_are_the_numbers_of_the_page() -> None:
    row = "| `from_state_dict`, jax leaves | 908 µs | 3.96 ms | 4.4 | 4 |"
    assert times_faster(MEASURED, BARS[1]) == 4.4
    slower = benchmarks(MEASURED.replace(row, row.replace("4.4", "1.1")))
    assert slower != benchmarks(MEASURED)
    assert slower.count(">1.1</text>") == 1


def test_a_row_that_is_gone_is_noticed() -> None:
    with pytest.raises(ValueError, match="expected a row 'raw write' with a column `times faster`"):
        benchmarks(MEASURED.replace("| raw write + fsync of the same bytes", "| something else"))


def test_the_story_quotes_the_tutorial() -> None:
    tutorial = (ROOT / "docs" / "tutorial.md").read_text()
    assert story(tutorial.replace("got bfloat16[32, 8]", "got bfloat16[32, 9]")) != story(tutorial)
    with pytest.raises(AssertionError, match="class Linear"):
        story(tutorial.replace("class Linear:", "class Dense:"))
