"""Parts of a checkpoint: `at="params"` makes a subtree the whole, `at=["params", "step"]` keeps only what is listed."""

from collections.abc import Sequence

from treaty.runtime._errors import show_keys
from treaty.runtime._restore_options import parse_paths
from treaty.runtime.directory._manifest import Leaf
from treaty.schema import TreatyError

Selected = list[tuple[int, tuple[str, ...], Leaf]]  # number, path below the selection, leaf


def select(leaves: Sequence[Leaf], at: str | Sequence[str] | None, where: str) -> Selected:
    numbered = list(enumerate(leaves))
    roots = parse_paths(at)
    if roots is None:
        return [(number, leaf.path, leaf) for number, leaf in numbered]
    if isinstance(at, str):
        root = roots[0]
        found = [(number, leaf.path[len(root) :], leaf) for number, leaf in numbered if leaf.path[: len(root)] == root]
        return found or _nothing(root, leaves, where)
    for root in roots:
        if not any(leaf.path[: len(root)] == root for leaf in leaves):
            _nothing(root, leaves, where)
    wanted = set(roots)
    return [
        (number, leaf.path, leaf)
        for number, leaf in numbered
        if any(leaf.path[:depth] in wanted for depth in range(len(leaf.path) + 1))
    ]


def _nothing(root: tuple[str, ...], leaves: Sequence[Leaf], where: str) -> Selected:
    depth = next(
        depth for depth in range(len(root), -1, -1) if any(leaf.path[:depth] == root[:depth] for leaf in leaves)
    )
    there = dict.fromkeys(
        leaf.path[depth] for leaf in leaves if leaf.path[:depth] == root[:depth] and leaf.path[depth:]
    )
    names = ", ".join(list(there)[:12]) or "nothing"
    raise TreatyError(f"expected {show_keys(root)} in {where}, got {names} at {show_keys(root[:depth])}")
