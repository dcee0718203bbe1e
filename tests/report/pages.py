"""The data that a page holds."""

import json
import re
from typing import Any

_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def data_of(page: str) -> dict[str, Any]:
    (text,) = _DATA.findall(page)
    found: dict[str, Any] = json.loads(text)
    return found


def leaves_by_path(data: dict[str, Any]) -> dict[str, Any]:
    """The leaves, by their paths as the tree has them."""
    found: dict[str, Any] = {}
    pending = [("$", data["tree"])]
    while pending:
        path, node = pending.pop()
        if "leaf" in node:
            found[path] = data["leaves"][node["leaf"]]
        pending += [(path + one["step"], one) for one in node.get("below", ())]
    return found
