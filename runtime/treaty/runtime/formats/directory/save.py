"""State dicts into directories: at once, or in the background from a copy."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import jax
from attrs import evolve

from treaty.runtime._process.background import SaveHandle, begin, wait_for_earlier
from treaty.runtime._process.forks import use_tensorstore
from treaty.runtime._process.team import team
from treaty.runtime._state.explain import dims_of
from treaty.runtime.formats.directory.base import base_at
from treaty.runtime.formats.directory.compression import compressed
from treaty.runtime.formats.directory.places import Place, place_of
from treaty.runtime.formats.directory.plan import SavePlan, plan_tree, snapshot
from treaty.runtime.formats.directory.write import write
from treaty.runtime.formats.shared.format import Writing
from treaty.schema import Schema, ir

_TREE: Final = "tree"  # the class of a tree that has none


def write_tree(path: str, tree: Mapping[str, Any], writing: Writing) -> None:
    """Save a state dict. Without a schema the manifest says that nothing is known of it."""
    with writing.team or team() as processes:
        place, plan = _planned(path, tree, writing)
        write(place, plan, processes)


def write_later(path: str, tree: Mapping[str, Any], writing: Writing) -> SaveHandle:
    """As `write_tree`, but return as soon as arrays may change, or be donated.

    That waits until the save before it is finished: so long are its arrays held, and they are not held twice. How that
    one ended is told by its own handle.
    """
    with writing.team or team() as processes:
        place, plan = _planned(path, tree, writing)
        work: Callable[[], None] = partial(write, place, snapshot(plan), processes)
        if writing.measure is not None:
            writing.measure.hand_over()
            work = writing.measure.around(work)
        return begin(place.where, work, writing.then)


def _planned(path: str, tree: Mapping[str, Any], writing: Writing) -> tuple[Place, SavePlan]:
    """Where and what to write, when the save before it has ended: that may be its base."""
    use_tensorstore()
    schema, dims = writing.schema, {} if writing.schema is None else dims_of(writing.schema, tree)
    plan = plan_tree(tree, schema or _untyped(tree), dims, writing.metadata)
    place = place_of(path)
    wait_for_earlier()
    must_exist = jax.process_index() == 0  # which says it for all: on a network file system others may see it later
    is_compressed = writing.compress is not None
    plan = evolve(
        plan,
        leaves=tuple(compressed(leaf, True) for leaf in plan.leaves) if is_compressed else plan.leaves,
        compress=is_compressed,
        revisions={} if schema is None else writing.revisions,
        step=writing.step,
        base=None if writing.base is None else base_at(writing.base, place, must_exist=must_exist),
    )
    if writing.measure is not None:
        writing.measure.nbytes = sum(leaf.nbytes for leaf in plan.leaves)
        plan = evolve(plan, advance=writing.measure.advance)
    return place, plan


def _untyped(tree: Mapping[str, Any]) -> Schema:
    fields = tuple(ir.Field(key, key, key, ir.Untyped()) for key in tree)
    return Schema(_TREE, (ir.Class(_TREE, _TREE, "state", (), fields),))
