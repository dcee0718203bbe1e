"""Files of np.savez: an archive with an array a member, named by its keys joined with slashes.

What numpy's files cannot say is in one more member, `__treaty__`, the bytes of a JSON object with `values`, the leaves
that are not arrays, and `dtypes`, of arrays that are stored as unsigned integers because numpy has no name for theirs.
Names are escaped in files that have it. A tree of plain arrays needs none, and its file is like anybody's. Under the
member's own name, where readers of old look for nothing, `dtypes` has the note of `shared.exact`.
"""

import json
from typing import Any, Final

import jax
import ml_dtypes
import numpy as np

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError, NewerFormatError, show_path
from treaty.runtime._lazy import LazyArray, MaybeScalar, viewed
from treaty.runtime._restore.source import Source
from treaty.runtime._state.arrays import is_key, write_key
from treaty.runtime._storage.overtaken import Known
from treaty.runtime._trees import check_depth, flatten, insert, is_stored_array, map_leaves
from treaty.runtime.formats.npz.archive import read_archive, write_archive
from treaty.runtime.formats.npz.names import join, split
from treaty.runtime.formats.shared import exact, json_values
from treaty.runtime.formats.shared.format import Writing
from treaty.runtime.formats.shared.json_text import parse_json
from treaty.schema import Schema
from treaty.schema.dtypes import BY_NAME

_NOTE: Final = "__treaty__"
_ESCAPED_NOTE: Final = "%5F_treaty__"  # of a key of that name
_BFLOAT16: Final = BY_NAME["bfloat16"].numpy


class NpzSource(Source):
    """Of an array of no axes np.savez does not say whether it was a Python value, and of unnamed bytes which dtype."""

    is_exact = False

    def __init__(self, path: str, known: Known | None = None) -> None:
        super().__init__(path)

    def whole(self, schema: Schema | None) -> Any:
        return map_leaves(_as_saved, read_leaves(self.where))


def read_leaves(path: str) -> dict[str, Any]:
    """The state dict in a file, arrays as lazy ones."""
    arrays = read_archive(path)
    note: dict[str, Any] = {}
    if _NOTE in arrays:
        note = _read_note(arrays.pop(_NOTE))
    tree: dict[str, Any] = {}
    for name, array in arrays.items():
        keys = split(name) if note else name.split("/")
        insert(tree, keys, _as_noted(array, note.get("dtypes", {}).get(name), keys))
    for keys, value in note.get("values", ()):
        insert(tree, keys, json_values.decode(value, keys))
    if _NOTE in note.get("dtypes", {}):
        exact.apply(tree, note["dtypes"][_NOTE], f"the member {_NOTE}")
    return tree


def write_tree(path: str, tree: dict[str, Any], writing: Writing) -> None:
    arrays: dict[str, Any] = {}
    values: list[Any] = []
    dtypes: dict[str, str] = {}
    escaped = False
    for keys, leaf in flatten(map_leaves(_words, tree)):
        check_depth(keys)
        if not is_stored_array(leaf):
            values.append([keys, json_values.encode(leaf, keys)])
            continue
        name = join(keys) if keys != (_NOTE,) else _ESCAPED_NOTE
        escaped |= name != "/".join(keys)
        if leaf.dtype.hasobject or leaf.dtype.type is np.void:
            raise InvalidArgumentError(f"expected an array of numbers or text, got {leaf.dtype} at {show_path(keys)}")
        if hasattr(ml_dtypes, leaf.dtype.name):
            dtypes[name] = leaf.dtype.name
        arrays[name] = leaf
    if values and (lost := exact.note(tree, is_stored_array, writing.ordered)) is not None:
        dtypes[_NOTE] = lost
    if values or dtypes or escaped:
        try:
            note = json.dumps({"values": values, "dtypes": dtypes}, separators=(",", ":"))
        except ValueError as error:  # an int of more digits than Python writes
            raise InvalidArgumentError(f"expected values that JSON can hold, got {error}") from None
        arrays[_NOTE] = np.frombuffer(note.encode(), np.uint8)
    write_archive(path, arrays)


def _words(leaf: Any) -> Any:
    """A typed PRNG key, in a tree that no class describes, in the form of state dicts."""
    return write_key(leaf) if isinstance(leaf, jax.Array) and is_key(leaf) else leaf


def _as_saved(leaf: Any) -> Any:
    """With a dtype where np.save wrote none: there is one of two bytes that numpy has no name for."""
    if not isinstance(leaf, LazyArray):
        return leaf
    if leaf.dtype.type is np.void and leaf.dtype.itemsize == _BFLOAT16.itemsize and not leaf.dtype.fields:
        leaf = viewed(leaf, _BFLOAT16)
    return leaf if leaf.shape else MaybeScalar((), leaf.dtype, leaf.read)


def _as_noted(array: LazyArray, name: Any, keys: list[str]) -> LazyArray:
    if name is None:
        return array
    row = BY_NAME.get(name) if type(name) is str else None
    if row is None or array.dtype.kind != "u" or array.dtype.itemsize != row.numpy.itemsize:
        raise CorruptCheckpointError(
            f"expected bits of {str(name)[:40]}, got {array.dtype} at {show_path(tuple(keys))}"
        )
    return viewed(array, row.numpy)


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
