"""docs/rules.md has a row for every kind of finding, and no other."""

import re
from pathlib import Path

from treaty.generator._findings import RULES

PAGE = Path(__file__).parent.parent.parent / "docs" / "rules.md"


def listed(page: str) -> set[str]:
    return set(re.findall(r"^\| `([A-Z]+-[a-z-]+)` \|", page, flags=re.MULTILINE))


def test_every_kind_of_finding_has_a_row() -> None:
    assert listed(PAGE.read_text()) == {f"{rule}-{kind}" for rule, kinds in RULES.items() for kind in kinds}


def test_a_row_that_is_missing_is_noticed() -> None:
    page = PAGE.read_text()
    assert listed(page) - listed(page.replace("`LOAD-tie`", "tie")) == {"LOAD-tie"}
