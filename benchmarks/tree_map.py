"""jax.tree functions over classes of 2 to 20 leaves: generated pytree registration against flax.struct."""

from collections.abc import Iterator
from typing import Any, Final

import flax.struct
import jax
from jax import Array
from jaxtyping import Float32

from benchmarks.harness import Row, compare, race
from treaty.generator import load
from treaty.schema import state

BESIDE: Final = "flax.struct"
RESULT: Final = "times faster"


def run(quick: bool) -> Iterator[Row]:
    total, rounds = (40, 2) if quick else (2_000, 60)
    for width in (2, 4, 8, 20):
        names = [f"w{index}" for index in range(width)]
        values = [dict.fromkeys(names, jax.numpy.full((4,), index)) for index in range(total // width)]
        ours, theirs = ([cls(**one) for one in values] for cls in (_treaty(names), _flax(names)))
        yield from _compare(width, ours, theirs, rounds)


def _compare(width: int, ours: Any, theirs: Any, rounds: int) -> Iterator[Row]:
    about = f"{width} leaves a node, per leaf"
    our_tree: Any  # JAX's type for it says nothing of ==
    leaves, our_tree = jax.tree.flatten(ours)
    their_leaves, their_tree = jax.tree.flatten(theirs)
    if [*map(id, leaves)] != [*map(id, their_leaves)] or jax.tree.structure(jax.tree.map(_same, ours)) != our_tree:
        raise AssertionError("the trees differ")
    per = len(leaves)

    mapping = race({"treaty": lambda: jax.tree.map(_same, ours), "flax": lambda: jax.tree.map(_same, theirs)}, rounds)
    yield compare(f"tree.map, {about}", mapping, ">= 1.7x", per)

    listing = race({"treaty": lambda: jax.tree.leaves(ours), "flax": lambda: jax.tree.leaves(theirs)}, rounds)
    yield compare(f"tree.leaves, {about}", listing, per=per)

    building = race(
        {
            "treaty": lambda: jax.tree.unflatten(our_tree, leaves),
            "flax": lambda: jax.tree.unflatten(their_tree, leaves),
        },
        rounds,
    )
    yield compare(f"tree.unflatten, {about}", building, per=per)


def _same(leaf: Any) -> Any:
    return leaf


def _treaty(names: list[str]) -> Any:
    cls: Any = state(_declaration(names))
    load(cls)
    return cls


def _flax(names: list[str]) -> Any:
    return flax.struct.dataclass(_declaration(names))


def _declaration(names: list[str]) -> type:
    annotations = dict.fromkeys(names, Float32[Array, "d"])
    return type(f"Node{len(names)}", (), {"__module__": __name__, "__annotations__": annotations})
