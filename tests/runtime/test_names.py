"""The names of `treaty.runtime`: the same for type checkers and at run time."""

import ast
from pathlib import Path

import pytest

import treaty.runtime


def test_type_checkers_and_the_interpreter_see_the_same_names() -> None:
    tree = ast.parse(Path(treaty.runtime.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {node.names[0].name: node.module for node in block.body if isinstance(node, ast.ImportFrom)}
    assert seen == {name: f"treaty.runtime.{home}" for home, names in treaty.runtime._HOMES.items() for name in names}


@pytest.mark.parametrize("name", [name for names in treaty.runtime._HOMES.values() for name in names])
def test_every_name_is_there(name: str) -> None:
    assert getattr(treaty.runtime, name).__name__ == name
    assert name in dir(treaty.runtime)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"module 'treaty.runtime' has no attribute 'saev'"):
        treaty.runtime.saev  # type: ignore[attr-defined]  # noqa: B018
