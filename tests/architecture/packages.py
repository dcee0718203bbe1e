"""The packages inside `treaty.runtime` and who imports whom, read from the source."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
RUNTIME: Final = ROOT / "runtime"
_MODULE: Final = re.compile(r"treaty(\.\w+)+(:\w+)?")

Imports = Mapping[str, set[str]]  # package -> packages that it imports


def package_of(module: str) -> str:
    """`treaty.runtime.formats.npz.archive` -> `formats/npz`, `treaty.runtime._lazy` -> `_lazy`.

    Of the formats each is a package of its own. What lies beside them (the table) is `formats`.
    """
    parts = module.split(".")[2:]
    if not parts:
        return "__init__"
    if parts[0] == "formats" and len(parts) > 1 and (RUNTIME / "treaty/runtime/formats" / parts[1]).is_dir():
        return f"formats/{parts[1]}"
    return parts[0]


def module_of(path: Path, root: Path = RUNTIME) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(root: Path = RUNTIME) -> dict[str, Path]:
    return {module_of(path, root): path for path in sorted((root / "treaty").rglob("*.py"))}


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """Every module of ours that a file imports: at its top, in functions, under TYPE_CHECKING, or by its name in a string."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _MODULE.fullmatch(node.value):
            names = [node.value.partition(":")[0]]
        for name in names:
            module = name if name in known else name.rpartition(".")[0]  # a name in a module, or a module
            if module in known:
                yield module


def package_imports(root: Path = RUNTIME) -> dict[str, set[str]]:
    """package -> the others that it imports."""
    imports = module_imports(root)
    found: dict[str, set[str]] = {package_of(module): set() for module in imports}
    for module, others in imports.items():
        found[package_of(module)] |= {package_of(one) for one in others}
    return {package: others - {package} for package, others in found.items()}


def module_imports(root: Path = RUNTIME) -> dict[str, set[str]]:
    """module -> the others that it imports."""
    known = modules(root)
    return {module: set(imported(path, known)) - {module} for module, path in known.items()}


def folder_imports() -> dict[str, set[str]]:
    """The same for the top-level folders. What is imported by its name, when a command is run, does not count here."""
    folders = [path.parent.name for path in sorted(ROOT.glob("*/treaty"))]
    return {folder: _imported_folders(ROOT / folder) - {folder} for folder in folders}


def _imported_folders(folder: Path) -> set[str]:
    nodes = [node for path in modules(folder).values() for node in ast.walk(ast.parse(path.read_text()))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[1] for name in names if name.startswith("treaty.")}


def direct(imports: Imports) -> dict[str, set[str]]:
    """Without the imports that follow from others, for a picture that can be read."""
    return {
        package: {one for one in others if not any(one in reached(imports, other) for other in others - {one})}
        for package, others in imports.items()
    }


def reached(imports: Imports, package: str) -> set[str]:
    """All that a package imports, by whatever way."""
    found: set[str] = set()
    pending = [package]
    while pending:
        new = imports[pending.pop()] - found
        found |= new
        pending += new
    return found
