"""Names that are imported when first used: the helper, and the names of `treaty.schema`."""

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import treaty.schema

NAMES = [name for names in treaty.schema._HOMES.values() for name in names]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A package with `one` and `two` from its module `_deep.home`."""
    folder = tmp_path / "lazy_package"
    (folder / "_deep").mkdir(parents=True)
    (folder / "_deep" / "__init__.py").write_text("")
    (folder / "_deep" / "home.py").write_text("one, two = 1, 2\n")
    (folder / "__init__.py").write_text(
        "from treaty.schema._lazy_names import lazy_names\n"
        '__getattr__, __dir__ = lazy_names(__name__, {"_deep.home": ("one", "two", "three")})\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("lazy_package")
    for name in [name for name in sys.modules if name.startswith("lazy_package")]:
        del sys.modules[name]


def test_a_home_is_imported_when_one_of_its_names_is_used(package: Any) -> None:
    assert "lazy_package._deep.home" not in sys.modules
    assert package.one == 1
    assert "lazy_package._deep.home" in sys.modules


def test_a_name_is_looked_for_once(package: ModuleType) -> None:
    assert "two" not in vars(package)
    assert package.two == 2
    assert vars(package)["two"] == 2


def test_dir_lists_names_before_they_are_used(package: ModuleType) -> None:
    assert {"one", "two", "__name__"} <= set(dir(package))
    assert "lazy_package._deep.home" not in sys.modules


def test_an_unknown_name_is_refused_as_by_any_module(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"^module 'lazy_package' has no attribute 'four'$"):
        package.four  # noqa: B018
    with pytest.raises(ImportError, match=r"cannot import name 'four' from 'lazy_package'"):
        exec("from lazy_package import four", {})


def test_a_name_that_its_home_lacks_is_refused_with_the_home(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"^module 'lazy_package._deep.home' has no attribute 'three'$"):
        package.three  # noqa: B018


def test_type_checkers_and_the_interpreter_see_the_same_names() -> None:
    tree = ast.parse(Path(treaty.schema.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = [(node.module, node.names[0].name) for node in block.body if isinstance(node, ast.ImportFrom)]
    assert seen == [(f"treaty.schema.{home}", name) for home, names in treaty.schema._HOMES.items() for name in names]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_schema_is_there(name: str) -> None:
    assert getattr(treaty.schema, name).__name__ == name
    assert name in dir(treaty.schema)
