"""Parts of a checkpoint: `at="params"` makes a subtree the whole, `at=["params", "step"]` keeps only what is listed."""

import ast
import re
from collections.abc import Sequence, Set
from typing import Final, TypeAlias, TypeVar

from treaty.runtime._errors import show_keys
from treaty.schema import Schema, TreatyError, ir
from treaty.schema.evolution.moves import nodes_below, without
from treaty.schema.evolution.resolution import EACH, Path
from treaty.schema.gathering import gathered_path

At: TypeAlias = str | Sequence[str] | None
_T = TypeVar("_T")

_STEP: Final = re.compile(r"""\.?(?P<name>[^.\[\]'"$]+)|\[(?P<index>-?[0-9]+)\]|\[(?P<quoted>'[^']*'|"[^"]*")\]""")
_SHOWN: Final = 12


class MissingPartError(TreatyError):
    """There is no part of the path that was asked for. Only commands tell it from other TreatyErrors."""


def select(leaves: Sequence[tuple[Path, _T]], at: At, where: str) -> list[tuple[Path, _T]]:
    """The leaves that are wanted, by their paths below the selection."""
    roots = parse_paths(at)
    if roots is None:
        return list(leaves)
    for root in roots:
        if not any(path[: len(root)] == root for path, _ in leaves):
            raise _nothing(root, leaves, where)
    if isinstance(at, str):
        (root,) = roots
        return [(path[len(root) :], leaf) for path, leaf in leaves if path[: len(root)] == root]
    wanted = set(roots)
    return [(path, leaf) for path, leaf in leaves if any(path[:depth] in wanted for depth in range(1, len(path) + 1))]


def narrowed(schema: Schema, at: At) -> Schema | None:
    """The schema of what `select` keeps; None where that is no class."""
    roots = parse_paths(at)
    if roots is None:
        return schema
    if isinstance(at, str):
        return _class_at(schema, roots[0])
    wanted = [gathered_path(schema, root) for root in roots]
    others = [path for path, _ in nodes_below(schema) if not any(_meet(path, root) for root in wanted)]
    return without(schema, others)


def _meet(path: Path, root: Path) -> bool:
    """Whether one of two paths is the beginning of the other; EACH stands for any key."""
    return all(key in (EACH, wanted) for key, wanted in zip(path, root, strict=False))


def _class_at(schema: Schema, path: Path) -> Schema | None:
    type: ir.Type = ir.Node(schema.root)
    for key in path:
        found = (ir.parts(schema, type, (key,)) or {}).get(key)
        if found is None:
            return None
        type = found
    inner = type.item if isinstance(type, ir.Optional) else type
    return schema.at(inner.cls) if isinstance(inner, ir.Node) else None


def parse_paths(at: At) -> tuple[Path, ...] | None:
    """The keys of each path; None where all is wanted, which is also what the path of the root says."""
    if at is None:
        return None
    if isinstance(at, (str, bytes)) or not isinstance(at, (Sequence, Set)):
        path = parse_path(at)  # which says what else was expected
        return (path,) if path else None
    paths = tuple(map(parse_path, at))
    if not paths:
        raise TreatyError("at: expected a path, or a list of them, got an empty list")
    return None if () in paths else paths


def parse_path(text: object) -> Path:
    """`blocks[3].up` or `$.blocks[3].up` -> the keys; `['a.b']` is a key that is not a name."""
    if not isinstance(text, str):
        raise TreatyError(f"at: expected a path as a str, or a list of them, got {text!r}")
    rest = text.removeprefix("$")
    keys = []
    while rest:
        step = _STEP.match(rest)
        if step is None:
            raise TreatyError(f"at={text!r}: expected a path like params or blocks[3].up or table['a.b']")
        keys.append(step["name"] or step["index"] or _unquoted(step["quoted"], text))
        rest = rest[step.end() :]
    return tuple(keys)


def _unquoted(quoted: str, text: str) -> str:
    try:
        return str(ast.literal_eval(quoted))
    except (SyntaxError, ValueError) as error:  # a backslash before the last quote, or of no character
        raise TreatyError(f"at={text!r}: expected a key in quotes as Python writes it, got {quoted}") from error


def _nothing(root: Path, leaves: Sequence[tuple[Path, object]], where: str) -> MissingPartError:
    from difflib import get_close_matches

    depth = next(depth for depth in range(len(root), -1, -1) if any(path[:depth] == root[:depth] for path, _ in leaves))
    below = [path[depth:] for path, _ in leaves if path[:depth] == root[:depth]]
    names = sorted({path[0] for path in below if path}, key=_in_order)  # formats keep no order, or another
    got = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "") if names else "a leaf"
    near = get_close_matches(root[depth], names, 1)
    advice = f"; did you mean {show_keys((*root[:depth], *near, *root[depth + 1 :]))}?" if near else ""
    return MissingPartError(f"expected {show_keys(root)} in {where}, got {got} at {show_keys(root[:depth])}{advice}")


def _in_order(key: str) -> tuple[int, str]:
    """Names by their letters, numbers by what they count."""
    return (len(key) if key.isdecimal() else 0), key
