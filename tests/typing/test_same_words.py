"""What the plugin says of a declaration is what `treaty generate` says of it."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from treaty.schema import SchemaError, schema_of

HERE = Path(__file__).parent
# Refused by Python or jaxtyping while the module is imported, before Treaty can say anything.
REFUSED_BY_OTHERS = {
    "Comma": "Axes should be separated with spaces, not commas",
    "ArrayOfInts": "Invalid jaxtyping type annotation.",
    "LengthOfNothing": "missing 1 required positional argument: 'size'",
}


def declarations() -> Iterator["tuple[ast.Module, str, list[str]]"]:
    """Each class of `reject` that the plugin reports, alone in its module, and the words reported."""
    for path in sorted(HERE.glob("reject/*.py")):
        text = path.read_text()
        lines, tree = text.splitlines(), ast.parse(text)
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        states = [node for node in classes if ast.unparse(node).startswith("@state")]
        rest = [node for node in tree.body if node not in states]
        for node in states:
            found = [
                re.fullmatch(r" *# P: (.*)  \[treaty\]", line) for line in lines[node.lineno - 2 : node.end_lineno]
            ]
            if words := [one[1] for one in found if one]:
                yield ast.Module([*rest, node], []), node.name, words


@pytest.mark.parametrize(("tree", "name", "words"), [pytest.param(*one, id=one[1]) for one in declarations()])
def test_generate_and_plugin_agree(
    tree: ast.Module, name: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("declared_alone")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.syspath_prepend(HERE)
    if name in REFUSED_BY_OTHERS:
        with pytest.raises((TypeError, ValueError), match=re.escape(REFUSED_BY_OTHERS[name])):
            _read(tree, name, module)
        return
    with pytest.raises(SchemaError) as raised:
        _read(tree, name, module)
    for one in words:
        assert _without_modules(one) in _without_modules(str(raised.value))


def _read(tree: ast.Module, name: str, module: ModuleType) -> None:
    exec(compile(tree, module.__name__, "exec"), vars(module))
    schema_of(vars(module)[name])


def _without_modules(text: str) -> str:
    return re.sub(r"(?:\w+\.)+(\w)", r"\1", text)
