"""Instances and trees as items of Orbax."""

import os
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

from treaty.runtime._errors import StateMismatchError
from treaty.runtime._restore.fit import fit, python_scalars
from treaty.runtime._restore.options import Options, RestoreOptions
from treaty.runtime._restore.pipeline import restore as run
from treaty.runtime._save.check import checked
from treaty.runtime._state.explain import explain
from treaty.runtime._state.registry import codec_of_class
from treaty.runtime._storage.overtaken import begin_again
from treaty.runtime._storage.paths import local_path
from treaty.runtime._trees import abstract
from treaty.runtime.formats.orbax.leaves import leaves_of
from treaty.runtime.formats.orbax.source import OrbaxSource, known_orbax
from treaty.runtime.formats.orbax.write_item import write_item
from treaty.schema import Schema

_T = TypeVar("_T")
_PathLike = str | os.PathLike[str]


def read_tree(
    path: _PathLike, *, step: int | None = None, item: str | None = None, schema: Schema | None = None
) -> dict[str, Any]:
    """The state dict of an item: sequences by "0", "1", …, arrays as LazyArray, PRNG keys as {"impl", "data"}.

    `path` is the item, a step with one item or with the one that `item` names, or a CheckpointManager's directory, of
    which the last committed step is taken unless `step` is given. A `schema` decides what Orbax leaves open.
    """
    found = OrbaxSource(os.fspath(path), step=step, item=item).tree()
    tree: dict[str, Any] = python_scalars(found) if schema is None else fit(schema, found)
    return tree


@overload
def restore(
    path: _PathLike,
    cls: type[_T],
    *,
    step: int | None = None,
    item: str | None = None,
    **options: Unpack[RestoreOptions],
) -> _T: ...
@overload
def restore(
    path: _PathLike, cls: _T, *, step: int | None = None, item: str | None = None, **options: Unpack[RestoreOptions]
) -> _T: ...
def restore(
    path: _PathLike, cls: Any, *, step: int | None = None, item: str | None = None, **options: Unpack[RestoreOptions]
) -> Any:
    """Build `cls`, a class, generic alias or template, from what Orbax or `write` stored; options as in treaty.runtime.restore.

    Every mismatch is raised before an array is read. The schema decides what Orbax leaves open: whether an item was a
    tuple or a list, a scalar a Python number or an array, None an empty NamedTuple.
    """
    place = os.fspath(path)
    look = partial(known_orbax, place, step=step, item=item)
    return begin_again(place, look, lambda: run(OrbaxSource(place, step=step, item=item), cls, Options(**options)))


def write(path: _PathLike, state: Any, *, cls: Any = None) -> None:
    """Write an instance, or a tree of dicts, lists, tuples, arrays and Python values, as an item for Orbax.

    `path` must be free; it is there as a whole or not at all. With `cls` a state dict is checked, and its sequences are
    sequences to Orbax too.
    """
    place = Path(local_path(path))
    if cls is None and isinstance(state, (dict, list, tuple)):
        write_item(place, leaves_of(state, None))
    elif type(state) is dict:
        schema = codec_of_class(cls).schema
        if mismatches := explain(schema, abstract(state)):
            raise StateMismatchError(mismatches)
        write_item(place, leaves_of(state, schema))
    else:
        found = checked(state, cls)
        write_item(place, leaves_of(found.tree, found.schema))
