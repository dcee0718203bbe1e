"""Every message that Treaty's errors can have, read from the sources and sorted by what the user was doing."""

import ast
import html
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ("schema", "generator", "runtime")
# What the user was doing -> the modules that may complain: of several that fit, the longest path decides.
AREAS: Final = {
    "declarations": "schema/treaty/schema",
    "generating": "generator/treaty",
    "evolution": "schema/treaty/schema/evolution runtime/treaty/runtime/_evolve runtime/treaty/runtime/_save/revision "
    "runtime/treaty/runtime/_golden generator/treaty/generator/_against generator/treaty/generator/_locks "
    "generator/treaty/generator/_moving generator/treaty/generator/_process generator/treaty/generator/_relock "
    "generator/treaty/generator/_plans runtime/treaty/runtime/_restore/resolve",
    "states": "runtime/treaty/runtime/_state runtime/treaty/runtime/codec runtime/treaty/runtime/_trees "
    "runtime/treaty/runtime/_save",
    "live": "runtime/treaty/runtime/_live schema/treaty/schema/library",
    "manager": "runtime/treaty/runtime/_manager",
    "restoring": "runtime/treaty/runtime/_restore",
    "devices": "runtime/treaty/runtime/_devices",
    "keymaps": "runtime/treaty/runtime/_keymaps schema/treaty/schema/keymap schema/treaty/schema/_key_patterns "
    "schema/treaty/schema/evolution/moves",
    "paths": "runtime/treaty/runtime/_checkpoint runtime/treaty/runtime/_storage runtime/treaty/runtime/_errors",
    "processes": "runtime/treaty/runtime/_process runtime/treaty/runtime/formats/directory/agreement",
    "directories": "runtime/treaty/runtime/formats/directory",
    "msgpack": "runtime/treaty/runtime/formats/msgpack runtime/treaty/runtime/_flax",
    "formats": "runtime/treaty/runtime/formats",
    "eformer": "runtime/treaty/runtime/_eformer runtime/treaty/runtime/formats/eformer",
    "commands": "runtime/treaty/runtime/commands runtime/treaty/runtime/_convert",
    "elsewhere": "runtime/treaty/runtime",
}


def markdown(area: str) -> str:
    """All messages of an area, as a list that can be unfolded, and that the search finds."""
    found = sorted({message for message, place in collected() if area_of(place) == area})
    items = "".join(f"<li><code>{html.escape(message)}</code></li>" for message in found)
    return f'<details class="messages"><summary>All {len(found)} messages</summary><ul>{items}</ul></details>'


def area_of(place: str) -> str:
    fitting = [(len(path), area) for area, paths in AREAS.items() for path in paths.split() if place.startswith(path)]
    return max(fitting)[1]


@cache
def collected() -> tuple[tuple[str, str], ...]:
    """Pairs of a message, with … for what is filled in, and the module that has it."""
    errors = error_classes()
    return tuple((message, place) for place, tree in _trees().items() for message in _messages(tree, errors))


@cache
def error_classes() -> dict[str, str]:
    """TreatyError and all classes that derive from it: name -> docstring."""
    nodes = [node for tree in _trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found = {"TreatyError": "Root of all errors that Treaty raises on purpose."}
    while new := {
        node.name: ast.get_docstring(node) or ""
        for node in nodes
        if node.name not in found and {ast.unparse(base) for base in node.bases} & found.keys()
    }:
        found |= new
    return found


@cache
def _trees() -> dict[str, ast.Module]:
    """Of every module, by its path."""
    paths = [path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in paths}


def _messages(tree: ast.Module, errors: dict[str, str]) -> Iterator[str]:
    """Texts that an error is made of, and all others that read as one."""
    given = {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _called(node.func) in errors
        for argument in node.args
    }
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        text = _template(node)
        if text is None or id(node) in inner or len(text.split()) < 3:
            continue
        if (
            id(node) in given
            or re.match(r"(.*: )?expected .", text)
            or re.search(r"; (write|run|pass|give|upgrade|remove|restore|declare|use|call|set|in a notebook)\b", text)
        ):
            yield " ".join(text.split())


def _called(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _template(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return None
