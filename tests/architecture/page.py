"""The generated parts of docs/architecture.md: the picture of the packages, and the two walks."""

import re
from collections.abc import Iterator
from typing import Final

from tests.architecture.packages import ROOT, direct, folder_imports, package_imports
from tests.architecture.walks import RESTORE, SAVE, Step

PAGE: Final = ROOT / "docs" / "architecture.md"

# From the top down. A package imports from its own floor and those below, as test_page.py checks.
FLOORS: Final = {
    "what users and generated code import": "commands __init__ codec serialization leaves sharding directory golden",
    "whole checkpoints": "_golden _report _manager _checkpoint _convert _live _flax _eformer",
    "formats": "formats formats/directory formats/safetensors formats/orbax formats/msgpack formats/npz formats/eformer "
    "formats/shared",
    "the way in and the way out": "_restore _save _evolve _devices",
    "tools": "_state _keymaps _same _trees _lazy _storage _process _display _errors",
}
_MARKED: Final = re.compile(r"(<!-- (\w+): .*? -->\n).*?(<!-- end -->)", re.DOTALL)


def written(page: str) -> str:
    """The page with its generated parts as the source has them now."""
    parts = {"picture": picture(), "restore": table(RESTORE), "save": table(SAVE)}
    return _MARKED.sub(lambda found: f"{found[1]}\n{parts[found[2]]}\n\n{found[3]}", page)


def picture() -> str:
    return "\n".join(["```mermaid", "flowchart TD", *_lines(), "```"])


def _lines() -> Iterator[str]:
    yield '  generator["<b>generator/</b><br>treaty.generator, treaty.cli, build hooks, mypy plugin"]'
    yield '  generated["<b>generated/</b><br>treaty.generated"]'
    yield '  schema["<b>schema/</b><br>treaty.schema"]'
    yield '  subgraph runtime["<b>runtime/</b>: treaty.runtime"]'
    yield "    direction TB"  # else Mermaid lays the floors out from left to right
    for number, (name, packages) in enumerate(FLOORS.items()):
        yield f'    subgraph floor{number}["{name}"]'
        yield from (f'      {_id(package)}["{_label(package)}"]' for package in packages.split())
        yield "    end"
    yield "  end"
    yield from (f"  {one} --> {other}" for one, others in folder_imports().items() for other in sorted(others))
    imports = direct(package_imports())
    for packages in FLOORS.values():
        for one in packages.split():
            yield from (f"  {_id(one)} --> {_id(other)}" for other in sorted(imports[one]))


def _id(package: str) -> str:
    """One for each package: `golden` and `_golden` are two."""
    return f"p_{package}".replace("/", "_")


def _label(package: str) -> str:
    return "treaty.runtime" if package == "__init__" else package


def table(walk: tuple[Step, ...]) -> str:
    rows = [f"| {number} | {_row(step)} |" for number, step in enumerate(walk, 1)]
    return "\n".join(["| | package | function | what it does with the data | when |", "|---|---|---|---|---|", *rows])


def _row(step: Step) -> str:
    short = f", or `{step.short}` of a mapped file" if step.short else ""
    return f"`{step.package}` | `{step.function}`{short} | {step.does} | {step.when or 'always'}"
