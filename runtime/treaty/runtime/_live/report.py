"""Errors that name both places of a leaf: in the class, and in the live tree."""

from collections.abc import Sequence
from typing import Any

import jax
from jax.tree_util import PyTreeDef

from treaty.runtime._errors import Mismatch, Path, StateMismatchError
from treaty.runtime._live.frameworks import refuse_circles, repeats


class LiveMismatch(Mismatch):
    """A mismatch that also says how Python reaches the leaf in the live tree."""

    live: str

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.live})"


def live_mismatch(expected: str, got: str, path: Path, live: str) -> LiveMismatch:
    made = LiveMismatch(expected, got, path)
    made.live = live
    return made


def refuse(found: Sequence[Mismatch], hints: Sequence[str] = ()) -> None:
    if found:
        raise StateMismatchError(found, hints)


def flatten(tree: Any) -> tuple[list[Any], PyTreeDef, dict[int, int]]:
    """JAX's flatten of a tree that ends, and which leaves of variables are others again."""
    may_repeat = refuse_circles(tree)
    leaves, structure = jax.tree.flatten(tree)
    return leaves, structure, repeats(tree, leaves) if may_repeat else {}
