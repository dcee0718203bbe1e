"""The page: one file that asks nobody for anything. What a checkpoint says is in it as JSON, and never as HTML."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any, Final

BEGINS: Final = "<!doctype html>\n<!-- treaty report -->\n"  # so that a later report knows what it may replace
_SCRIPTS: Final = (
    "dom.js",
    "nodes.js",
    "head.js",
    "treemap.js",
    "leaf.js",
    "tree.js",
    "changes.js",
    "steps.js",
    "main.js",
)
_ENDINGS: Final = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"}  # no text ends the element that it is in


def page(data: dict[str, Any]) -> str:
    """The text of a page; ASCII as far as data goes, so that no name turns the direction of what follows."""
    style, script = _asset("page.css"), "".join(map(_asset, _SCRIPTS))
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_ENDINGS)
    return Template(_asset("page.html")).substitute(
        policy=_policy(style, script), style=style, script=script, data=text
    )


def _policy(style: str, script: str) -> str:
    """Nothing is loaded, and nothing runs or styles but what this package holds."""
    allowed = {"script-src": script, "style-src": style}
    rules = [f"{what} 'sha256-{_digest(text)}'" for what, text in allowed.items()]
    return "; ".join(["default-src 'none'", *rules, "base-uri 'none'", "form-action 'none'"])


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return (files(__package__) / "page" / name).read_text(encoding="utf-8")
