"""Files of np.savez: an archive with an array a member, named by its keys joined with slashes.

What numpy's files cannot say is in one more member, `__treaty__`, the bytes of a JSON object with `values`, the leaves
that are no arrays, and `dtypes`, of arrays that are stored as unsigned integers because numpy has no name for theirs.
Names are escaped in files that have it. A tree of plain arrays needs none, and its file is like anybody's. Under the
member's own name, where readers of old look for nothing, `dtypes` has the note of `_exact`.
"""

import json
import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeVar, overload

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from treaty.runtime._convert.lazy_restore import MaybeScalar, fit, map_arrays, restore_tree
from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError, NewerFormatError, show_path
from treaty.runtime._lazy import LazyArray
from treaty.runtime._overtaken import begin_again, known_file
from treaty.runtime._state.arrays import write_key
from treaty.runtime._state.registry import codec_of_instance
from treaty.runtime._state.state_dict import Into, check_state, write_state
from treaty.runtime._state.trees import check_depth, is_stored_array
from treaty.runtime._state.untyped import write_untyped
from treaty.runtime.formats import _exact, _json_values
from treaty.runtime.formats._npz_archive import read_archive, write_archive
from treaty.runtime.formats._npz_names import join, split
from treaty.runtime.formats._safetensors_header import parse_json
from treaty.schema import Schema
from treaty.schema._declare import version_of
from treaty.schema.dtypes import BY_NAME

_T = TypeVar("_T")
_PathLike = str | os.PathLike[str]
_NOTE: Final = "__treaty__"
_ESCAPED_NOTE: Final = "%5F_treaty__"  # of a key of that name
_DEPTH: Final = 400


def read_tree(path: _PathLike, *, schema: Schema | None = None) -> dict[str, Any]:
    """The state dict in a file, arrays as LazyArray: views of the mapped file where they are not compressed.

    A `schema` decides what np.savez forgets.
    """
    arrays = read_archive(path)
    note: dict[str, Any] = {}
    if _NOTE in arrays:
        note = _read_note(arrays.pop(_NOTE))
    tree: dict[str, Any] = {}
    for name, array in arrays.items():
        keys = split(name) if note else name.split("/")
        _insert(tree, keys, _as_noted(array, note.get("dtypes", {}).get(name), keys))
    for keys, value in note.get("values", ()):
        _insert(tree, keys, _json_values.decode(value, keys))
    if _NOTE in note.get("dtypes", {}):
        _exact.apply(tree, note["dtypes"][_NOTE], f"the member {_NOTE}")
    fitted: dict[str, Any] = tree if schema is None else fit(schema, map_arrays(_maybe_scalar, tree))
    return fitted


def read_open(path: _PathLike) -> dict[str, Any]:
    """As `read_tree`, with what np.savez forgets left open, for a schema to decide."""
    tree: dict[str, Any] = map_arrays(_maybe_scalar, read_tree(path))
    return tree


@overload
def restore(
    path: _PathLike, cls: type[_T], *, dims: Mapping[str, int] | None = None, into: Into | None = None
) -> _T: ...
@overload
def restore(path: _PathLike, cls: _T, *, dims: Mapping[str, int] | None = None, into: Into | None = None) -> _T: ...
def restore(path: _PathLike, cls: Any, *, dims: Mapping[str, int] | None = None, into: Into | None = None) -> Any:
    """Build `cls`, a class, generic alias or template, from a file of np.savez, np.savez_compressed or `write`.

    Every mismatch is raised before an array is read. The schema decides what np.savez forgets: whether an array of no
    axes was a Python value, and which dtype unnamed bytes are of.
    """
    place = os.fspath(path)
    look = partial(known_file, place)
    return begin_again(place, look, lambda: restore_tree(read_open(path), cls, dims, into))


def write(path: _PathLike, state: object) -> None:
    """Write an instance or a tree to a file that replaces `path` as a whole; np.load reads the arrays of it."""
    ordered = None
    if version_of(type(state)) is None:
        tree = write_untyped(state)
    else:
        codec = codec_of_instance(state)
        tree = write_state(codec, state)
        check_state(codec, tree)
        ordered = _exact.dicts_of(codec.schema, tree)
    if type(tree) is not dict:
        raise InvalidArgumentError(f"expected a tree or an instance of a state class, got {type(state).__name__}")
    arrays: dict[str, Any] = {}
    values: list[Any] = []
    dtypes: dict[str, str] = {}
    escaped = False
    for keys, leaf in _leaves(tree, ()):
        check_depth(keys)
        if not is_stored_array(leaf):
            values.append([keys, _json_values.encode(leaf, keys)])
            continue
        name = join(keys) if keys != (_NOTE,) else _ESCAPED_NOTE
        escaped |= name != "/".join(keys)
        if leaf.dtype.hasobject or leaf.dtype.type is np.void:
            raise InvalidArgumentError(f"expected an array of numbers or text, got {leaf.dtype} at {show_path(keys)}")
        if hasattr(ml_dtypes, leaf.dtype.name):
            dtypes[name] = leaf.dtype.name
        arrays[name] = leaf
    if values and (exact := _exact.note(tree, is_stored_array, ordered)) is not None:
        dtypes[_NOTE] = exact
    if values or dtypes or escaped:
        try:
            note = json.dumps({"values": values, "dtypes": dtypes}, separators=(",", ":"))
        except ValueError as error:  # an int of more digits than Python writes
            raise InvalidArgumentError(f"expected values that JSON can hold, got {error}") from None
        arrays[_NOTE] = np.frombuffer(note.encode(), np.uint8)
    write_archive(path, arrays)


def _leaves(node: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not node and path:
        yield path, {}
    for key, value in node.items():
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = write_key(value)
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _maybe_scalar(array: LazyArray) -> LazyArray:
    return array if array.shape else MaybeScalar((), array.dtype, array.read)


def _as_noted(array: LazyArray, name: Any, keys: list[str]) -> LazyArray:
    if name is None:
        return array
    row = BY_NAME.get(name) if type(name) is str else None
    if row is None or array.dtype.kind != "u" or array.dtype.itemsize != row.numpy.itemsize:
        raise CorruptCheckpointError(
            f"expected bits of {str(name)[:40]}, got {array.dtype} at {show_path(tuple(keys))}"
        )
    return LazyArray(array.shape, row.numpy, lambda: array.read().view(row.numpy))


def _insert(tree: dict[str, Any], keys: list[str], value: Any) -> None:
    if len(keys) > _DEPTH:
        raise CorruptCheckpointError(f"expected at most {_DEPTH} levels, got {len(keys)}")
    node = tree
    for key in keys[:-1]:
        node = node.setdefault(key, {})
        if type(node) is not dict:
            raise CorruptCheckpointError(f"expected one value a place, got two on the way to {show_path(tuple(keys))}")
    if keys[-1] in node:
        raise CorruptCheckpointError(f"expected one value a place, got two at {show_path(tuple(keys))}")
    node[keys[-1]] = value


def _read_note(array: LazyArray) -> dict[str, Any]:
    if array.dtype != np.uint8:
        raise CorruptCheckpointError(f"expected the bytes of a note, got {array.dtype} in the member {_NOTE}")
    note = parse_json(array.read().tobytes(), f"the member {_NOTE}")
    values, dtypes = note.get("values"), note.get("dtypes")
    if others := sorted(set(note) - {"values", "dtypes"}):
        raise NewerFormatError(f"the member {_NOTE}", f"with {others[0][:40]!r}, which this one does not know")
    if not isinstance(dtypes, dict) or not isinstance(values, list):
        raise CorruptCheckpointError(f"expected values and dtypes, got something else in the member {_NOTE}")
    for pair in values:
        keys = pair[0] if isinstance(pair, list) and len(pair) == 2 else None
        if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
            raise CorruptCheckpointError(f"expected a path and a value, got {str(pair)[:80]} in the member {_NOTE}")
    return note
