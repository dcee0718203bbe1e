"""Instances and trees in files of np.savez."""

import os
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._restore.fit import fit
from treaty.runtime._restore.options import Options, RestoreOptions
from treaty.runtime._restore.pipeline import restore as run
from treaty.runtime._save.check import checked
from treaty.runtime._state.untyped import write_untyped
from treaty.runtime._storage.overtaken import begin_again, known_file
from treaty.runtime.formats.npz.source import NpzSource, read_leaves, write_tree
from treaty.runtime.formats.shared.format import Writing
from treaty.schema import Schema
from treaty.schema._declare import state_options

_T = TypeVar("_T")
_PathLike = str | os.PathLike[str]


def read_tree(path: _PathLike, *, schema: Schema | None = None) -> dict[str, Any]:
    """The state dict in a file, arrays as LazyArray. A `schema` decides what np.savez forgets."""
    place = os.fspath(path)
    if schema is None:
        return read_leaves(place)
    tree: dict[str, Any] = fit(schema, NpzSource(place).tree())
    return tree


@overload
def restore(path: _PathLike, cls: type[_T], **options: Unpack[RestoreOptions]) -> _T: ...
@overload
def restore(path: _PathLike, cls: _T, **options: Unpack[RestoreOptions]) -> _T: ...
def restore(path: _PathLike, cls: Any, **options: Unpack[RestoreOptions]) -> Any:
    """Build `cls`, a class, generic alias or template, from a file of np.savez or `write`; options as in treaty.runtime.restore.

    Every mismatch is raised before an array is read. The schema decides what np.savez forgets: whether an array of no
    axes was a Python value, and which dtype unnamed bytes are of.
    """
    place = os.fspath(path)
    return begin_again(place, partial(known_file, place), lambda: run(NpzSource(place), cls, Options(**options)))


def write(path: _PathLike, state: object) -> None:
    """Write an instance or a tree to a file that replaces `path` as a whole; np.load reads the arrays of it."""
    if state_options(type(state)) is not None:
        found = checked(state)
        write_tree(os.fspath(path), found.tree, Writing(found.schema, ordered=found.ordered))
        return
    tree = write_untyped(state)
    if type(tree) is not dict:
        raise InvalidArgumentError(f"expected a tree or an instance of a state class, got {type(state).__name__}")
    write_tree(os.fspath(path), tree, Writing())
