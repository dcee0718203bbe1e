"""Paths that callers write: `params`, `blocks[3].up`, `table['a.b']`."""

import ast
import re
from typing import Final

from treaty.schema import TreatyError

_STEP: Final = re.compile(r"""\.?(?P<name>[^.\[\]'"$]+)|\[(?P<index>-?[0-9]+)\]|\[(?P<quoted>'[^']*'|"[^"]*")\]""")


def parse_at(text: str) -> tuple[str, ...]:
    """`blocks[3].up` or `$.blocks[3].up` -> the keys; `['a.b']` is a key that is no name."""
    if not isinstance(text, str):
        raise TreatyError(f"at: expected a path as a str, or a list of them, got {text!r}")
    rest = text.removeprefix("$")
    keys = []
    while rest:
        step = _STEP.match(rest)
        if step is None:
            raise TreatyError(f"at={text!r}: expected a path like params or blocks[3].up or table['a.b']")
        quoted = step["quoted"]
        keys.append(step["name"] or step["index"] or str(ast.literal_eval(quoted)))
        rest = rest[step.end() :]
    return tuple(keys)
