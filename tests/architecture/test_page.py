"""docs/architecture.md tells of every package, and its picture and tables are those of the source as it is."""

import ast
import re

import pytest

from tests.architecture.packages import ROOT, RUNTIME, package_imports
from tests.architecture.page import FLOORS, PAGE, table, written
from tests.architecture.walks import EACH, RESTORE, SAVE, Step


def test_the_page_is_fresh() -> None:
    assert written(PAGE.read_text()) == PAGE.read_text(), "run python -m tests.architecture"


def test_an_old_page_is_noticed() -> None:
    page = PAGE.read_text()
    assert page.count("--> schema\n") == 3
    assert table(SAVE) in page
    for old in (page.replace("--> schema\n", "", 1), page.replace(table(SAVE), table(RESTORE))):
        assert written(old) == page != old


def test_every_package_is_told_of_and_drawn() -> None:
    inside = PAGE.read_text().partition("### Inside runtime")[2].partition("\n## ")[0]
    packages = set(package_imports())
    assert set(re.findall(r"^\| `([\w/]+)` \|", inside, flags=re.MULTILINE)) == packages
    drawn = [package for names in FLOORS.values() for package in names.split()]
    assert sorted(drawn) == sorted(packages)


def test_floors_stand_on_those_below() -> None:
    level = {package: number for number, names in enumerate(FLOORS.values()) for package in names.split()}
    upwards = [(one, other) for one, all in package_imports().items() for other in all if level[other] < level[one]]
    assert upwards == []


@pytest.mark.parametrize("step", [*RESTORE, *SAVE])
def test_every_step_names_a_function(step: Step) -> None:
    if step.package == EACH:
        return  # test_walks.py calls it, for every format
    module, name = step.function.split(".")
    tree = ast.parse((RUNTIME / "treaty/runtime" / step.package / f"{module}.py").read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_file_that_is_named_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    assert missing(text) == []
    assert missing(text + "`docs/nothing.md`, `nothing.py`, `schema/nowhere/`") == [
        "docs/nothing.md",
        "nothing.py",
        "schema/nowhere/",
    ]


def missing(text: str) -> list[str]:
    """`<name>` stands for any one; a name inside runtime may be short."""
    named = re.findall(r"`([\w.<>-]+(?:/[\w.<>-]*)+|[\w-]+\.(?:py|md|toml|txt|yaml))`", text)
    folders = (ROOT, RUNTIME / "treaty/runtime")
    patterns = {name: re.sub(r"<\w+>", "*", name).rstrip("/") for name in named}
    return sorted(name for name, pattern in patterns.items() if not any(any(one.glob(pattern)) for one in folders))
