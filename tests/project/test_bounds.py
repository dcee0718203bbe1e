"""The dependencies in pyproject.toml: all that is imported, nothing else, from versions on that `make test-oldest` runs with."""

import ast
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDED = [Requirement(line) for line in PROJECT["dependencies"]]
MYPY = [Requirement(line) for line in PROJECT["optional-dependencies"]["mypy"]]
# Imported only where they are installed: by the plugin, by the hooks of builds, for objects that their users brought, and
# what Python has from 3.14 on.
OPTIONAL = {"mypy", "hatchling", "setuptools", "flax", "optax", "compression", "treaty"}


def test_the_oldest_constraints_are_the_lower_bounds() -> None:
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    for requirement in [*NEEDED, *MYPY]:
        (bound,) = requirement.specifier
        assert bound.operator == ">=", requirement
        assert Version(pinned.pop(requirement.name)) == Version(bound.version), requirement
    assert pinned.pop("jaxlib") == next(bound.version for one in NEEDED if one.name == "jax" for bound in one.specifier)
    assert set(pinned) <= {Requirement(line).name for line in PROJECT["optional-dependencies"]["dev"]}


def test_what_is_imported_is_depended_on_and_the_other_way_round() -> None:
    imported = {name for folder in ("schema", "generator", "runtime") for name in _imported(ROOT / folder)}
    assert imported - OPTIONAL == {one.name.split(".")[0] for one in NEEDED}


def _imported(folder: Path) -> set[str]:
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                found.add(node.module.split(".")[0])
    return found - sys.stdlib_module_names
