"""Paths as names of members: keys joined with slashes, and escaped where two paths would otherwise share a name."""

import re
from collections.abc import Sequence
from typing import Final

_ESCAPED: Final = re.compile(r"[%/\\\x00]|^\.+$")
_ESCAPE: Final = re.compile(r"%([0-9A-F]{2})")


def join(path: Sequence[str]) -> str:
    """`("a/b", "", "c")` -> `"a%2Fb/%/c"`. An empty key is a lone %; dots alone would be a directory to unzip."""
    return "/".join(_ESCAPED.sub(_hex, key) or "%" for key in path)


def split(name: str) -> list[str]:
    return ["" if key == "%" else _ESCAPE.sub(_character, key) for key in name.split("/")]


def _hex(match: re.Match[str]) -> str:
    return "".join(f"%{ord(character):02X}" for character in match[0])


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))
