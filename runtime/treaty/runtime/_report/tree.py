"""The tree of a page: nodes by key, each with how its key is written in a path, and runs of alike ones."""

from collections.abc import Callable, Sequence
from typing import Any

from treaty.runtime._display.folding import branches, step_shown
from treaty.runtime._restore.select import parse_path
from treaty.runtime._trees import Path
from treaty.schema import TreatyError


def tree_of(paths: Sequence[Path], form: Callable[[int], str]) -> dict[str, Any]:
    """Nodes as `{"step": ".kernel", "leaf": 3}`, where 3 counts the paths, or with `"below"`. Of two checkpoints one may have both.

    A node with a `"run"`, such as `[0..47]`, has nothing but its items below it. Where a node has other children too, the run is
    one of them, without a step of its own.
    """
    root: dict[str, Any] = {"step": ""}
    pending = [(root, branches(paths, form))]
    while pending:
        node, branch = pending.pop()
        if branch.leaf is not None:
            node["leaf"] = branch.leaf
        runs = list(branch.runs())
        if runs:
            node["below"] = []
        for run in runs:
            holder = node
            if len(run) > 1:
                if len(runs) > 1 or branch.leaf is not None or node is root:
                    holder = {"step": "", "below": []}
                    node["below"].append(holder)
                holder["run"] = step_shown(run)
            for key in run:
                holder["below"].append(_node(key))
                pending.append((holder["below"][-1], branch.below[key]))
    return root


def _node(key: str) -> dict[str, Any]:
    """`"unnamed"` if `at=` has no way to write its key; one with both kinds of quotes has none."""
    step = step_shown((key,))
    try:
        is_named = parse_path(step.removeprefix(".")) == (key,)
    except (TreatyError, SyntaxError, ValueError):
        is_named = False
    return {"step": step} if is_named else {"step": step, "unnamed": True}
