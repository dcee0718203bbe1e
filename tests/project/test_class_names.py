"""One name, one thing: no class of the source has the name of another, a leading underscore or not."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("schema", "generator", "runtime")
# Names that two classes have on purpose, each with the reason.
PAIRS: dict[str, str] = {}


def shared_names(folders: Iterable[Path]) -> dict[str, list[str]]:
    """The names that several modules give to a class, and which modules these are."""
    found = defaultdict(list)
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    found[node.name.lstrip("_")].append(str(path.relative_to(folder.parent)))
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_a_class_name_stands_for_one_class() -> None:
    found = shared_names(ROOT / folder for folder in FOLDERS)
    assert {name: modules for name, modules in found.items() if name not in PAIRS} == {}
    assert set(PAIRS) <= set(found), "a pair that is none any more"


def test_two_classes_of_one_name_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.py").write_text("class Block: ...\nclass Other: ...\n")
    (tmp_path / "one" / "b.py").write_text("class _Block: ...\n")
    assert shared_names([tmp_path / "one"]) == {"Block": ["one/a.py", "one/b.py"]}
