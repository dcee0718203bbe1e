"""docs/errors.md has every error: each class with what to do, each part of the sources in one part of the page."""

import re
from pathlib import Path

from docs._site import messages

from tests.architecture.packages import ROOT
from treaty.runtime import _errors
from treaty.schema import TreatyError

PAGE = (ROOT / "docs" / "errors.md").read_text()


def test_every_class_of_errors_is_explained() -> None:
    table = PAGE.partition("## Which class")[2].partition("\n## ")[0]
    explained = re.findall(r"`(\w+Error)`", "\n".join(row.split("|")[1] for row in table.splitlines() if "| `" in row))
    assert sorted(explained) == sorted(messages.error_classes())
    public = {
        name for name, value in vars(_errors).items() if isinstance(value, type) and issubclass(value, TreatyError)
    }
    assert public <= set(explained)


def test_every_area_has_its_part_of_the_page() -> None:
    marks = re.findall(r"^<!-- messages of (\w+), written when the site is built -->$", PAGE, re.MULTILINE)
    assert marks == sorted(set(marks), key=marks.index)
    assert set(marks) == set(messages.AREAS)
    for paths in messages.AREAS.values():
        for path in paths.split():
            assert [*ROOT.glob(f"{path}*")], f"{path}: nothing there any more"


def test_messages_that_the_page_explains_are_those_of_the_sources() -> None:
    assert unknown(PAGE) == []
    assert unknown("| `cannot stare …` | x | y |\n| `cannot store …` | x | y |") == ["cannot stare …"]


def unknown(page: str) -> list[str]:
    """What is quoted in the tables with the heading `message`, or a row alone, and nobody says."""
    tables = re.findall(r"^\| message .*\n\|-.*\n((?:\|.*\n)+)", page, re.MULTILINE) or [page]
    quoted = [
        text.replace("\\|", "|") for table in tables for text in re.findall(r"^\| `([^`]*)`", table, re.MULTILINE)
    ]
    said = "\n".join(path.read_text() for path in sources())
    words = [[part for part in re.split(r"…", text) if part.strip(": ")] for text in quoted]
    return [text for text, parts in zip(quoted, words, strict=True) if not all(part.strip() in said for part in parts)]


def sources() -> list[Path]:
    return [path for folder in ("schema", "generator", "runtime") for path in (ROOT / folder).rglob("*.py")]


def test_messages_are_found_in_the_sources() -> None:
    found = {message: messages.area_of(place) for message, place in messages.collected()}
    assert found["dim …: division by zero; write another divisor"] == "declarations"
    assert found["no generated code for …; run: treaty generate …"] == "states"
    assert found["expected file:///path, with three slashes, got …"] == "paths"
    assert found["expected the end, got … more bytes at byte …, $"] == "msgpack"
    assert "<li><code>abstract(…) needs …; it takes …</code></li>" in messages.markdown("states")
