"""Orbax checkpoints, read and written without Orbax: every layout of its releases in, OCDBT with zarr3 out."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, overload

from treaty.runtime._convert.lazy_restore import fit, python_scalars, restore_tree
from treaty.runtime._errors import IncompleteCheckpointError
from treaty.runtime._overtaken import begin_again
from treaty.runtime._paths import local_path
from treaty.runtime._state.state_dict import Into
from treaty.runtime.formats._known import known_orbax
from treaty.runtime.formats._orbax_files import missing_file
from treaty.runtime.formats._orbax_find import find_item
from treaty.runtime.formats._orbax_read import read_item
from treaty.runtime.formats._orbax_tree import leaves_of
from treaty.runtime.formats._orbax_write import write_item
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
    found = read_open(path, step=step, item=item)
    tree: dict[str, Any] = python_scalars(found) if schema is None else fit(schema, found)
    return tree


def read_open(path: _PathLike, *, step: int | None = None, item: str | None = None) -> dict[str, Any]:
    """As `read_tree`, with what Orbax leaves open still open, for a schema to decide."""
    return read_item(find_item(Path(local_path(path)), step, item))


def require_files(path: _PathLike) -> None:
    """That the files which the arrays of an item are in are there, in full length; reads no array."""
    item = find_item(Path(local_path(path)))
    lost = missing_file(item)
    if lost is not None:
        raise IncompleteCheckpointError(f"expected the whole file {lost}, got nothing or only part of it in {item}")


@overload
def restore(
    path: _PathLike,
    cls: type[_T],
    *,
    dims: Mapping[str, int] | None = None,
    into: Into | None = None,
    step: int | None = None,
    item: str | None = None,
) -> _T: ...
@overload
def restore(
    path: _PathLike,
    cls: _T,
    *,
    dims: Mapping[str, int] | None = None,
    into: Into | None = None,
    step: int | None = None,
    item: str | None = None,
) -> _T: ...
def restore(
    path: _PathLike,
    cls: Any,
    *,
    dims: Mapping[str, int] | None = None,
    into: Into | None = None,
    step: int | None = None,
    item: str | None = None,
) -> Any:
    """Build `cls`, a class, generic alias or template, from what Orbax or `write` stored.

    Every mismatch is raised before an array is read. The schema decides what Orbax leaves open: whether an item was a
    tuple or a list, a scalar a Python number or an array, None an empty NamedTuple.
    """
    place = os.fspath(path)
    look = partial(known_orbax, place, step=step, item=item)
    return begin_again(place, look, lambda: restore_tree(read_open(path, step=step, item=item), cls, dims, into))


def write(path: _PathLike, state: object, *, cls: Any = None) -> None:
    """Write an instance, or a tree of dicts, lists, tuples, arrays and Python values, as an item for Orbax.

    `path` must be free; it is there as a whole or not at all. With `cls` a state dict is checked, and its sequences are
    sequences to Orbax too.
    """
    write_item(Path(local_path(path)), leaves_of(state, cls))
