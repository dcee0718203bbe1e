"""The hooks of this repository itself: what `make check` runs, with what is installed, and nothing from elsewhere."""

import importlib
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from tests.project.user_project import REPOSITORY, succeed

# PyYAML comes with flax, and has no types.
yaml: Any = importlib.import_module("yaml")


def hooks() -> list[dict[str, Any]]:
    """Those of the one place that needs no network."""
    (place,) = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())["repos"]
    assert place["repo"] == "local"
    return list(place["hooks"])


def test_they_are_what_make_check_runs_in_its_order() -> None:
    (recipe,) = re.findall(r"^check: .*\n((?:\t.*\n)+)", (REPOSITORY / "Makefile").read_text(), flags=re.MULTILINE)
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    assert [hook["entry"] for hook in hooks()] == commands


def test_each_runs_once_and_makes_no_environment() -> None:
    assert {(hook["language"], hook["pass_filenames"]) for hook in hooks()} == {("system", False)}


def test_their_commands_exist() -> None:
    for hook in hooks():
        program, *arguments = shlex.split(hook["entry"])
        assert Path(program).parent == Path(".venv/bin")
        command = [argument for argument in arguments if argument != "."]
        installed = Path(sys.executable).parent / Path(program).name  # of whichever environment runs the tests
        assert succeed(installed, *command, "--help", cwd=REPOSITORY)


def test_the_check_of_generated_code_runs_for_all_that_it_depends_on() -> None:
    (settings,) = (hook for hook in hooks() if hook["id"] == "treaty-check")
    paths = [
        "generator/treaty/generator/templates/record.py.j2",
        "schema/treaty/schema/ir.py",
        "pyproject.toml",
        "README.md",
    ]
    assert [path for path in paths if re.search(settings["files"], path)] == paths[:3]
