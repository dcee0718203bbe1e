"""Imports go one way: schema <- generator, schema <- runtime <- generated. Nothing imports generated but users.

Inside runtime they go one way too, from package to package, as docs/architecture.md draws it.
"""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.packages import Imports, module_imports, modules, package_imports

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

# What a package of runtime imports, from the ground up: only packages above it in this table, and these all. Imports in functions,
# under TYPE_CHECKING and by name count as well: two packages that know each other's types are one subject.
INSIDE_RUNTIME = {
    "_errors": "",
    "_process": "",
    "_display": "_errors",
    "_storage": "_errors _process",
    "_lazy": "_storage",
    "_trees": "_errors _lazy",
    "_same": "_lazy _trees",
    "_keymaps": "_errors _lazy _same _storage _trees",
    # from_state_dict and to_state_dict take a key map.
    "_state": "_errors _keymaps _process",
    "_live": "_errors _state",
    "_devices": "_errors _lazy _process _state _storage",
    "_evolve": "_errors _keymaps _lazy _same _state _trees",
    "_restore": "_devices _errors _evolve _keymaps _lazy _process _state _trees",
    "_save": "_errors _evolve _keymaps _state _trees",
    "formats/shared": "_errors _lazy _process _restore _state _storage",
    "formats/msgpack": "_errors _lazy _restore _state _storage _trees formats/shared",
    "formats/npz": "_errors _lazy _process _restore _save _state _storage _trees formats/shared",
    "formats/eformer": "_errors _lazy _process _restore _storage _trees formats/shared",
    "formats/safetensors": "_errors _lazy _process _restore _save _state _storage _trees formats/shared",
    # Two formats keep small values as MessagePack.
    "formats/orbax": "_errors _lazy _process _restore _save _state _storage _trees formats/msgpack formats/shared",
    "formats/directory": "_errors _lazy _process _restore _state _storage _trees formats/msgpack formats/shared",
    "formats": "_errors _restore _storage formats/directory formats/eformer formats/msgpack formats/npz formats/orbax "
    "formats/safetensors formats/shared",
    "_checkpoint": "_devices _errors _lazy _process _restore _save _state _storage _trees formats formats/shared",
    "_manager": "_checkpoint _errors _process _restore _storage formats formats/directory formats/shared",
    "_convert": "_errors _keymaps _lazy _manager _process _restore _same _state _storage _trees formats formats/directory formats/shared",
    "_golden": "_checkpoint _errors _evolve _lazy _save _state _storage _trees formats formats/shared",
    "_report": "_checkpoint _display _errors _lazy _manager _process _restore _same _storage _trees formats formats/shared",
    "_flax": "_errors _state _storage formats/msgpack formats/shared",
    "_eformer": "_devices _errors _lazy _process _state _storage formats/eformer formats/shared",
    "__init__": "_checkpoint _devices _errors _live _manager _process _report _restore _state formats/msgpack formats/shared",
    # Generated code registers its classes with Flax, too, so that flax.serialization serves them in programs that import nothing else of ours.
    "codec": "_errors _flax _state",
    "serialization": "_flax",
    "leaves": "_eformer formats/eformer",
    "sharding": "_eformer _state formats/safetensors",
    "directory": "_checkpoint _process formats/shared",
    "golden": "_golden",
    "commands": "__init__ _checkpoint _convert _display _errors _golden _manager _process _report _restore _storage formats formats/shared",
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


def disagreements(table: dict[str, str], real: Imports) -> list[str]:
    """Where the table and the real imports differ, and what the table's order forbids."""
    below: set[str] = set()
    found = [f"{package} is not in the table" for package in sorted(set(real) - set(table))]
    for package, names in table.items():
        listed = set(names.split())
        used = real.get(package, set())
        found += [f"{package} imports {one}, which the table does not allow" for one in sorted(used - listed)]
        found += [f"{package} may import {one}, and does not" for one in sorted(listed - used)]
        found += [f"{package} may import {one}, which is not above it in the table" for one in sorted(listed - below)]
        below.add(package)
    return found


def test_the_packages_of_runtime_import_each_other_one_way() -> None:
    found = disagreements(INSIDE_RUNTIME, package_imports())
    assert not found, "\n".join(found)


def test_no_modules_of_runtime_import_each_other_in_a_circle() -> None:
    TopologicalSorter(module_imports()).prepare()  # raises CycleError, which names them


def test_the_test_of_runtime_can_fail(tmp_path: Path) -> None:
    package = tmp_path / "treaty" / "runtime"
    (package / "_upper").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "_lower.py").write_text(
        "if TYPE_CHECKING:\n    from treaty.runtime import _upper\ndef f():\n    import treaty.runtime._other\n"
    )
    (package / "_upper" / "__init__.py").write_text("from treaty.runtime._lower import f\n")
    (package / "_upper" / "deep.py").write_text("_HERE = 'treaty.runtime._other:name'\n")
    (package / "_other.py").write_text("'treaty.runtime._upper: no module, but a sentence'\n")

    table = {"__init__": "", "_lower": "_upper", "_upper": "__init__ _lower"}

    assert disagreements(table, package_imports(tmp_path)) == [
        "_other is not in the table",
        "_lower imports _other, which the table does not allow",
        "_lower may import _upper, which is not above it in the table",
        "_upper imports _other, which the table does not allow",
        "_upper may import __init__, and does not",
    ]
    with pytest.raises(CycleError):
        TopologicalSorter(module_imports(tmp_path)).prepare()


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


def test_no_module_of_a_format_is_imported_before_it_is_asked_for() -> None:
    table = "from treaty.runtime.formats.table import FORMATS, format_meant"
    formats = {name for name, path in modules().items() if "/formats/" in str(path) and path.name != "__init__.py"}
    shared = {"treaty.runtime.formats.table", "treaty.runtime.formats.shared.format"}
    assert loaded_by(f"{table}; format_meant('x.msgpack')") & formats == shared
    asked = loaded_by(f"{table}; FORMATS['npz'].is_at('x')") & formats
    assert asked == {*shared, "treaty.runtime.formats.npz.recognise"}


def test_the_library_needs_no_optax() -> None:
    assert "optax" not in loaded_by("import treaty.schema.library.optax")
