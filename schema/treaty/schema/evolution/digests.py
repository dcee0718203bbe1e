"""The digest of a migration as it was released.

A function is known by what it does, in a form of our own: `ast.dump` is another text in another version of Python.
"""

import ast
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from treaty.schema.ir_json import digest_of

_UNSEEN: Final = frozenset({"ctx", "kind", "type_comment", "type_params", "returns", "annotation"})
_MIGRATION: Final = ("treaty.schema.evolution.migrations", "migration")


def function_digest(function: Callable[..., Any], name: str) -> str:
    """Of a function's source, without its name, annotations, docstrings, comments and layout, and without `@migration` itself.

    Where there is no source, as of a function that was made by another, it is that of `name`. Functions that it calls do not count.
    """
    try:
        tree = _parsed(inspect.getsource(function))
    except (OSError, TypeError, SyntaxError, IndexError):
        return name_digest(name)
    if not isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return digest_of(_plain(tree))
    below = list(_below_migration(tree.decorator_list, getattr(inspect.unwrap(function), "__globals__", {})))
    return digest_of([_plain(tree.args), _plain(tree.body), *([_plain(below)] if below else [])])


def name_digest(name: str) -> str:
    """Of a function of which nothing is known but its name: no edit of it is found."""
    return digest_of({"name": name})


def _parsed(source: str) -> ast.stmt:
    try:
        return ast.parse(textwrap.dedent(source)).body[0]
    except IndentationError:  # a text in it begins at the left margin, and so nothing is taken off
        (block,) = ast.parse(f"if True:\n{source}").body
        assert isinstance(block, ast.If)
        return block.body[0]


def _below_migration(decorators: list[ast.expr], names: Mapping[str, Any]) -> Iterator[ast.expr]:
    """The decorators of what was handed to `@migration`: those above it change nothing that a restore runs."""
    below = itertools.takewhile(lambda one: not _is_migration(one, names), reversed(decorators))
    return reversed(list(below))


def _is_migration(decorator: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether it is `migration(...)`, by any name, or what that gave."""
    first, *rest = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator).split(".")
    found = names.get(first)
    for name in rest:
        found = getattr(found, name, None)
    module, qualname = getattr(found, "__module__", ""), getattr(found, "__qualname__", "")
    return (module, str(qualname).partition(".")[0]) == _MIGRATION


def _plain(value: Any) -> Any:
    """A syntax tree as JSON data; what is empty is left out, so that a field of a later Python adds nothing."""
    if isinstance(value, ast.AnnAssign) and value.value is not None:  # the same without its annotation
        return _plain(ast.Assign([value.target], value.value))
    if isinstance(value, ast.AST):
        fields = {name: _plain(one) for name, one in ast.iter_fields(value) if name not in _UNSEEN}
        return [type(value).__name__, {name: one for name, one in fields.items() if one not in (None, [])}]
    if isinstance(value, list):
        return [_plain(one) for one in _without_docstring(value)]
    if value is None or isinstance(value, str):
        return value
    return [type(value).__name__, repr(value)]


def _without_docstring(body: list[Any]) -> Iterator[Any]:
    """Without strings that stand alone as a statement, and declarations of a type without a value."""
    for one in body:
        is_text = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str)
        if not is_text and not (isinstance(one, ast.AnnAssign) and one.value is None):
            yield one
