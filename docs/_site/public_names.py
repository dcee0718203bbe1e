"""All names of a public package that its page of the reference does not list under a heading of its own."""

import ast
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = {
    "treaty.schema": (ROOT / "schema/treaty/schema/__init__.py", "api-schema.md"),
    "treaty.runtime": (ROOT / "runtime/treaty/runtime/__init__.py", "api-runtime.md"),
}


def markdown(package: str) -> str:
    listed = _listed(package)
    return "\n\n".join(f"::: {package}.{name}" for name in public(package) if name not in listed)


def public(package: str) -> list[str]:
    """What the package exports, read from its text: importing it is not needed."""
    tree = ast.parse(PACKAGES[package][0].read_text())
    tables = [
        node.value for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_HOMES"
    ]
    return sorted(name for names in ast.literal_eval(tables[0]).values() for name in names)  # type: ignore[arg-type]


def _listed(package: str) -> set[str]:
    page = ROOT / "docs" / PACKAGES[package][1]
    return set(re.findall(rf"^::: {re.escape(package)}\.(\w+)$", page.read_text(), re.MULTILINE))
