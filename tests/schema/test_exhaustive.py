"""Code that tells kinds of types apart names all of them: mypy finds each place that does not know a new one.

A copy of the tree gets a new type, a new kind of class, a new expression and a new operator. In every function that tells two
or more apart, mypy must then find an `assert_never` that is reached; or the function leaves the rest to one of the folds.
"""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LAYERS = ("schema", "generator")
TYPES = {"Array", "Key", "Scalar", "NumpyScalar", "Enum", "Untyped", "Leaf"} | {
    *("Node", "Sequence", "Tuple", "Dict", "Optional", "Partial")
}
SIZES = {"Name", "Int", "Op"}
STEPS = {"Item", "Each", "Present"}
FOLDS = {"with_children", "own_dims", "parts"}
MAKERS = {"_scaffold"}  # packages that ask only about types which they made themselves, of values that they saw
NEW = {
    "ir.py": [
        ("Type = Leaf |", "class Novel:\n    KIND: ClassVar = 'novel'\n\n\nType = Leaf | Novel |"),
        ('Literal["state", "attrs",', 'Literal["state", "novel", "attrs",'),
    ],
    "dims.py": [
        ("Expr = Name |", "class Novel:\n    pass\n\n\nExpr = Novel | Name |"),
        ('Operator = Literal["+",', 'Operator = Literal["**", "+",'),
    ],
    "sources.py": [("Step = Item |", "class Novel:\n    pass\n\n\nStep = Novel | Item |")],
}


def walks(path: Path) -> Iterator[tuple[str, range]]:
    """The functions of a file that tell types, sizes or steps apart, and each `match` of a kind or operator: a name, and the lines."""
    own = path.name in ("ir.py", "dims.py")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Match) and ast.unparse(node.subject).endswith(("kind", ".op")):
            yield f"match {ast.unparse(node.subject)}", range(node.lineno, (node.end_lineno or 0) + 1)
        if isinstance(node, ast.FunctionDef):
            calls = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
            called = {ast.unparse(call.func).removeprefix("ir.") for call in calls}
            asked = {
                name.removeprefix("ir.")
                for call in calls
                if ast.unparse(call.func) == "isinstance"
                for name in re.findall(r"[\w.]+", ast.unparse(call.args[1]))
                if name.startswith("ir.") or own or name in STEPS
            }
            if any(len(asked & kinds) > 1 for kinds in (TYPES, SIZES, STEPS)) and not called & FOLDS:
                yield node.name, range(node.lineno, (node.end_lineno or 0) + 1)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("novel")
    for layer in LAYERS:
        shutil.copytree(ROOT / layer, root / layer, ignore=shutil.ignore_patterns("__pycache__"))
    for name, changes in NEW.items():
        path = root / "schema/treaty/schema" / name
        for old, new in changes:
            assert path.read_text().count(old) == 1, f"{name} no longer has {old!r}: mend this test"
            path.write_text(path.read_text().replace(old, new))
    return root


def unknown_to(tree: Path) -> dict[Path, set[int]]:
    """By file, the lines where mypy finds an `assert_never` that is reached; other packages are left unread."""
    (tree / "mypy.ini").write_text("[mypy]\nmypy_path = schema:generator\nexplicit_package_bases = True\n")
    options = ["--namespace-packages", "--follow-imports=skip", "--cache-dir=cache"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *LAYERS], cwd=tree, capture_output=True, text=True, check=False
    )
    found: dict[Path, set[int]] = {}
    for file, line in re.findall(r'^(\S+):(\d+): error: Argument 1 to "assert_never"', done.stdout, re.MULTILINE):
        found.setdefault(tree / file, set()).add(int(line))
    assert found, done.stdout + done.stderr
    return found


def test_mypy_names_every_place_that_does_not_know_a_new_kind(tree: Path) -> None:
    found = unknown_to(tree)
    files = [
        path for layer in LAYERS for path in sorted((tree / layer).rglob("*.py")) if path.parent.name not in MAKERS
    ]
    every = [(path, *walk) for path in files for walk in walks(path)]
    quiet = [
        f"{path.name}: {name}: ends without assert_never"
        for path, name, lines in every
        if not found.get(path, set()) & {*lines}
    ]
    assert not quiet, "\n".join(quiet)
    assert {path.name for path, _, _ in every} >= {
        *("ir.py", "dims.py", "sources.py", "_classes.py", "_identity.py", "_leaves.py", "_settle.py", "_ties.py"),
        *("_dims_plan.py", "_expressions.py", "_names.py", "_sizes.py"),
    }


def test_this_test_can_fail(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def f(type):\n    return isinstance(type, ir.Array) or isinstance(type, ir.Key)\n")
    assert list(walks(wrong)) == [("f", range(1, 3))]
    wrong.write_text("def f(type):\n    return isinstance(type, ir.Array)\n")
    assert list(walks(wrong)) == []
