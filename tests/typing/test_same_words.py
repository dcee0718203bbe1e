"""What the plugin says of a declaration is what `treaty generate` says of it."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from treaty.schema import SchemaError, TreatyError, schema_of

HERE = Path(__file__).parent


def declarations() -> Iterator["tuple[ast.Module, str, list[str]]"]:
    """Each class of `reject` that the plugin reports, alone in its module, and the words reported."""
    for path in sorted(HERE.glob("reject/*.py")):
        text = path.read_text()
        lines, tree = text.splitlines(), ast.parse(text)
        states = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.decorator_list]
        rest = [node for node in tree.body if node not in states]
        for node in states:
            found = [re.fullmatch(r" *# P: (.*)  \[treaty\]", line) for line in lines[node.lineno - 2 : node.end_lineno]]
            if words := [one[1] for one in found if one]:
                yield ast.Module([*rest, node], []), node.name, words


@pytest.mark.parametrize(("tree", "name", "words"), [pytest.param(*one, id=one[1]) for one in declarations()])
def test_generate_and_plugin_agree(
    tree: ast.Module, name: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("declared_alone")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.syspath_prepend(HERE)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - the words are checked below
        exec(compile(tree, "declared_alone", "exec"), vars(module))
        schema_of(vars(module)[name])
    if isinstance(raised.value, TreatyError):
        assert isinstance(raised.value, SchemaError)
        for one in words:
            assert _without_modules(one) in _without_modules(str(raised.value))


def _without_modules(text: str) -> str:
    return re.sub(r"(?:\w+\.)+(\w)", r"\1", text)
