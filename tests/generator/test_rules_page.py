"""docs/rules.md has a row for every kind of finding, and no other, and an example for each that a change of declarations has."""

import re

import attrs
import pytest

from tests.evolution.project import projects
from tests.generator.rules_page import PAGE, Example, examples, shown_kinds
from treaty.generator._findings import RULES

EXAMPLES = list(examples(PAGE.read_text()))


def listed(page: str) -> set[str]:
    return set(re.findall(r"^\| `([A-Z]+-[a-z-]+)` \|", page, flags=re.MULTILINE))


def test_every_kind_of_finding_has_a_row() -> None:
    assert listed(PAGE.read_text()) == {f"{rule}-{kind}" for rule, kinds in RULES.items() for kind in kinds}


def test_a_row_that_is_missing_is_noticed() -> None:
    page = PAGE.read_text()
    assert listed(page) - listed(page.replace("`LOAD-tie`", "tie")) == {"LOAD-tie"}


def test_every_kind_that_a_change_has_is_shown_once() -> None:
    assert sorted(one.name for one in EXAMPLES) == sorted(shown_kinds())


@pytest.mark.parametrize("example", EXAMPLES, ids=[one.name for one in EXAMPLES])
def test_the_bad_is_found_as_the_page_says_and_the_good_is_fine(example: Example) -> None:
    with projects():
        bad, good = example.run()
    assert bad == example.expected
    assert {line.partition(":")[0] for line in bad.splitlines()} == {example.name}
    assert good == []


def test_a_bad_example_that_is_fine_and_a_good_one_that_is_not_are_noticed() -> None:
    (added,) = (one for one in EXAMPLES if one.name == "LOAD-added")
    swapped = {"bad": "good", "good": "bad"}
    turned = attrs.evolve(added, sections=tuple((swapped.get(title, title), text) for title, text in added.sections))
    with projects():
        bad, good = turned.run()
    assert (bad, [one.name for one in good]) == ("", ["LOAD-added"])
