"""The tree of a page: nodes by key, each with how its key is written in a path."""

from collections.abc import Sequence
from typing import Any

from treaty.runtime._report.leaves import can_be_asked_for, step_shown
from treaty.runtime._trees import Path


def tree_of(paths: Sequence[Path]) -> dict[str, Any]:
    """Nodes as `{"step": ".kernel", "leaf": 3}`, where 3 counts the paths, or with `"below"`. Of two checkpoints one may have both."""
    root: dict[str, Any] = {"step": "", "below": []}
    known: dict[Path, dict[str, Any]] = {(): root}
    for number, path in enumerate(paths):
        _node(path, known)["leaf"] = number
    return root


def _node(path: Path, known: dict[Path, dict[str, Any]]) -> dict[str, Any]:
    found = known.get(path)
    if found is not None:
        return found
    for depth in range(1, len(path) + 1):
        at = path[:depth]
        if at not in known:
            step = step_shown(at[-1])
            known[at] = {"step": step} if can_be_asked_for(step, at[-1]) else {"step": step, "unnamed": True}
            known[at[:-1]].setdefault("below", []).append(known[at])
    return known[path]
