"""Imports go one way: schema <- generator, schema <- runtime <- generated. Nothing imports generated but users."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("schema", "generator", "generated", "runtime")
MAY_IMPORT = {
    "schema": {"schema"},
    "generator": {"generator", "schema"},
    "runtime": {"runtime", "schema"},
    "generated": {"generated", "runtime", "schema"},
}
OUTSIDE = {  # third-party packages a layer may import when it is imported itself
    "schema": {"attrs", "numpy", "ml_dtypes", "jaxtyping"},
    "generator": {"attrs", "click", "jaxtyping", "jinja2", "ml_dtypes", "mypy", "numpy", "hatchling", "setuptools"},
    "runtime": {"attrs", "backports", "click", "jax", "ml_dtypes", "msgpack", "numpy", "tensorstore", "xxhash"},
    "generated": {"jax", "numpy", "ml_dtypes"},
}


def imports(path: Path, whole: bool = True) -> set[str]:
    """Modules a file imports; without `whole`, only those at its top level."""
    tree = ast.parse(path.read_text())
    found = set()
    for node in ast.walk(tree) if whole else tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= (
                {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "treaty" else {node.module}
            )
    return found


def violations(layer: str, path: Path) -> list[str]:
    found = []
    for name in sorted(imports(path)):
        if name.startswith("treaty.") and name.split(".")[1] not in MAY_IMPORT[layer]:
            found.append(f"{path}: {layer} imports {name}")
    in_library = "library" in path.parts
    for name in sorted(imports(path, whole=False)):
        package = name.split(".")[0]
        if package in sys.stdlib_module_names or package == "treaty" or (in_library and package == "jax"):
            continue
        if package not in OUTSIDE[layer]:
            found.append(f"{path}: {layer} imports {package} when it is imported")
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_go_one_way(layer: str) -> None:
    files = sorted((ROOT / layer / "treaty").rglob("*.py"))
    assert files
    assert [problem for path in files for problem in violations(layer, path)] == []


def test_this_test_can_fail(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import torch\ndef f():\n    from treaty.generator import load\n")
    assert violations("runtime", wrong) == [
        f"{wrong}: runtime imports treaty.generator",
        f"{wrong}: runtime imports torch when it is imported",
    ]
    wrong.write_text("import treaty.generated.optax\nimport jax\n")
    assert len(violations("schema", wrong)) == 2


def test_the_namespace_has_no_init_and_every_root_is_typed() -> None:
    assert not list(ROOT.glob("*/treaty/__init__.py"))
    assert all((ROOT / layer / "treaty" / layer / "py.typed").exists() for layer in LAYERS)


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_declaring_needs_no_jax() -> None:
    assert "jax" not in loaded_by("import treaty.schema")
    assert "jax" not in loaded_by("import treaty.runtime")
    assert "jax" in loaded_by("import treaty.runtime.codec")  # the check can fail


def test_generating_imports_no_jax_no_tensorstore_and_help_imports_nothing() -> None:
    assert not {"jax", "tensorstore", "treaty.runtime"} & loaded_by("import treaty.generator.commands")
    assert not {"jax", "jinja2", "treaty.generator", "treaty.schema"} & loaded_by("import treaty.cli")


def test_inspecting_imports_no_jax_no_numpy_no_tensorstore_and_not_the_generator() -> None:
    heavy = {"jax", "jaxtyping", "numpy", "tensorstore", "treaty.generator", "msgpack"}
    assert not heavy & loaded_by("import treaty.runtime.commands.checkpoints")


def test_the_library_needs_no_optax() -> None:
    assert "optax" not in loaded_by("import treaty.schema.library.optax")
