"""State dicts as named tensors and back: keys joined with dots, and a note in the metadata of all that is not a tensor.

The note is JSON with up to three parts: `values`, what is not an array, with its path; `paths`, of names whose keys hold
dots; `dtypes`, which the format has no name for. A state of plain arrays needs none, and its file is like anybody's.
Under the one name that no tensor can have, where readers of old look for nothing, `dtypes` has the note of `shared.exact`.
"""

import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from attrs import frozen

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError, NewerFormatError, show_path
from treaty.runtime._trees import check_depth, insert, is_stored_array
from treaty.runtime._trees import flatten as flatten_tree
from treaty.runtime.formats.safetensors.header import METADATA
from treaty.runtime.formats.shared import exact, json_values
from treaty.runtime.formats.shared.json_text import parse_json
from treaty.schema import Schema, ir
from treaty.schema.dtypes import BY_NAME, DType

NOTE: Final = "treaty"
SCHEMA: Final = "treaty.schema"  # the digest of what was written, and the revisions of its classes
_Path: TypeAlias = tuple[str, ...]
_Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@frozen
class Named:
    """A state dict as tensors, and the note that brings back the rest."""

    tensors: dict[str, Any]
    note: str | None


def flatten(tree: Mapping[str, Any], ordered: Collection[_Path] | None = None) -> Named:
    """The tensors of a state dict, and the note; `ordered` are the dicts whose order counts, or all of them."""
    tensors: dict[str, Any] = {}
    note: dict[str, Any] = {"values": [], "paths": {}, "dtypes": {}}
    for path, leaf in flatten_tree(tree):
        check_depth(path)
        if not is_stored_array(leaf):
            note["values"].append([path, json_values.encode(leaf, path)])
            continue
        name = ".".join(path)
        if name in tensors:
            raise InvalidArgumentError(f"expected keys that differ when joined with dots, got {name!r} twice")
        if path != tuple(name.split(".")):
            note["paths"][name] = path
        row = _row(leaf.dtype)
        if row is None:
            raise InvalidArgumentError(f"expected a dtype of numbers, got {leaf.dtype} at {show_path(path)}")
        if row.safetensors is None:
            note["dtypes"][name] = row.name
        tensors[name] = leaf
    if note["values"] and (lost := exact.note(tree, is_stored_array, ordered)) is not None:
        note["dtypes"][METADATA] = lost
    said = {part: value for part, value in note.items() if value}
    try:
        return Named(tensors, json.dumps(said, separators=(",", ":")) if said else None)
    except ValueError as error:  # an int of more digits than Python writes
        raise InvalidArgumentError(f"expected values that JSON can hold, got {error}") from None


def nest(tensors: Mapping[str, _Array], metadata: Mapping[str, str], schema: Schema | None) -> dict[str, Any]:
    """The state dict of tensors. Names without a note are split where the schema has keys, or else at each dot."""
    tree: dict[str, Any] = {}
    if NOTE not in metadata:
        splitter = None if schema is None or _splits_at_dots(schema) else _Splitter(schema)
        for name, array in {**tensors, **_ties(tensors, metadata)}.items():
            insert(tree, name.split(".") if splitter is None else splitter.path(name), array)
        return tree
    note = _read_note(metadata[NOTE])
    dtypes, paths = note.get("dtypes", {}), note.get("paths", {})
    for name, array in tensors.items():
        leaf = _restored(name, array, dtypes[name]) if name in dtypes else array
        insert(tree, paths[name] if name in paths else name.split("."), leaf)
    for path, value in note.get("values", ()):
        insert(tree, path, json_values.decode(value, path))
    if METADATA in dtypes:
        exact.apply(tree, dtypes[METADATA], f"__metadata__.{NOTE}")
    return tree


def stored_as(dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """The format's dtype and shape for an array; bits go under another name where it has none for the dtype."""
    row = _row(dtype)
    if row is not None and row.safetensors is not None:
        return row.safetensors, shape
    return ("F64", (*shape, 2)) if dtype == np.complex128 else ("U8", shape)


@lru_cache
def _row(dtype: Any) -> DType | None:
    return BY_NAME.get(dtype.name)  # numpy makes the name anew each time, slowly


def _read_note(text: str) -> dict[str, Any]:
    note = parse_json(text.encode("utf-8", "surrogatepass"), "a note")
    values, paths, dtypes = note.get("values", []), note.get("paths", {}), note.get("dtypes", {})
    if others := sorted(set(note) - {"values", "paths", "dtypes"}):
        raise NewerFormatError(f"__metadata__.{NOTE}", f"with {others[0][:40]!r}, which this one does not know")
    sound = (
        isinstance(values, list)
        and all(isinstance(pair, list) and len(pair) == 2 and _is_path(pair[0]) for pair in values)
        and isinstance(paths, dict)
        and all(_is_path(path) for path in paths.values())
        and isinstance(dtypes, dict)
        and all(isinstance(dtype, str) for dtype in dtypes.values())
    )
    if not sound:
        raise CorruptCheckpointError(f"expected values, paths and dtypes, got something else at __metadata__.{NOTE}")
    return note


def _is_path(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(key, str) for key in value)


def _ties(tensors: Mapping[str, _Array], metadata: Mapping[str, str]) -> dict[str, _Array]:
    """Tied tensors as safetensors.torch.save_model notes them: the name that is gone, and the one that was kept."""
    gone = {name: kept for name, kept in metadata.items() if kept in tensors and name != "format"}
    return {name: tensors[kept] for name, kept in gone.items() if name not in tensors}


def _restored(name: str, array: _Array, dtype: str) -> _Array:
    """The array in the dtype that it had before its bits were stored under another."""
    row = BY_NAME.get(dtype)
    shape = array.shape[:-1] if dtype == "complex128" else array.shape
    if row is None or stored_as(row.numpy, shape) != (BY_NAME[array.dtype.name].safetensors, array.shape):
        raise CorruptCheckpointError(f"expected bits of {dtype}, got {array.dtype}{list(array.shape)} at {name!r}")
    restored: _Array = array.reshape(-1).view(row.numpy).reshape(shape)
    return restored


def _splits_at_dots(schema: Schema) -> bool:
    """Whether no key of a schema can hold a dot."""
    fields = [field for one in schema.classes for field in one.fields]
    types = (type for field in fields for type in ir.every_type(field.type))
    return not any("." in field.key for field in fields) and not any(isinstance(type, ir.Dict) for type in types)


class _Splitter:
    """Where names of a foreign file split, since a key of a class may hold dots itself."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.known: dict[str, tuple[dict[str, ir.Type], list[str]]] = {}

    def path(self, name: str) -> list[str]:
        path: list[str] = []
        type: ir.Type = ir.Node(self.schema.root)
        while True:
            key, type = self.step(type, name)
            path.append(key)
            if key == name:
                return path
            name = name[len(key) + 1 :]

    def step(self, type: ir.Type, name: str) -> tuple[str, ir.Type]:
        """The first key of a name, and the type of what is there."""
        type = type.item if isinstance(type, ir.Optional) else type
        head = name.partition(".")[0]
        if isinstance(type, ir.Node):
            fields, dotted = self.fields(type.cls)
            key = max((one for one in dotted if f"{name}.".startswith(f"{one}.")), key=len, default=head)
            found = None if key in fields else self.item(type.cls, name)
            return found or (key, fields.get(key, ir.Untyped()))
        if isinstance(type, ir.Dict):
            value = type.value.item if isinstance(type.value, ir.Optional) else type.value
            return (name if isinstance(value, (ir.Array, ir.Fitted)) else head), value
        parts = ir.parts(self.schema, type, [head]) or {}
        return head, parts.get(head, ir.Untyped())

    def item(self, cls: str, name: str) -> tuple[str, ir.Type] | None:
        """The key of an item that lies beside the fields: as few words as will do, but of an array the whole name."""
        words = name.split(".")
        for field in (one for one in self.schema[cls].fields if one.spread):
            for end in range(1, len(words) + 1):
                key = ".".join(words[:end])
                type = ir.entries(self.schema, field, (key,)).get(key)
                if type is not None and (end == len(words) or not isinstance(type, (ir.Array, ir.Fitted))):
                    return key, type
        return None

    def fields(self, cls: str) -> tuple[dict[str, ir.Type], list[str]]:
        """The types of a class by key, and the keys that hold dots."""
        if cls not in self.known:
            fields = {field.key: field.type for field in self.schema[cls].fields if not field.spread}
            self.known[cls] = fields, [key for key in fields if "." in key]
        return self.known[cls]
