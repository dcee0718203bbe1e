"""Digests of what is locked: a migration as it was released, and an entry of the lock with all before it.

A function is known by what it does, in a form of our own: `ast.dump` is another text in another version of Python.
"""

import ast
import hashlib
import inspect
import json
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, Final

_UNSEEN: Final = frozenset({"ctx", "kind", "type_comment", "type_params", "decorator_list", "returns", "annotation"})


def digest_of(data: Any) -> str:
    """Of JSON data: whatever the order of its keys and its layout."""
    return sha256(json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True))


def sha256(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def function_digest(function: Callable[..., Any], name: str) -> str:
    """Of a function's source, without its name, decorators, annotations, docstrings, comments and layout.

    Where there is no source, as of a function that was made by another, it is that of `name`. Functions that it calls do not count.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return digest_of({"name": name})
    if isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return digest_of([_plain(tree.args), _plain(tree.body)])
    return digest_of(_plain(tree))


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
