"""Open safetensors: tensors are views of the mapped files, and of a part of one only its pages are read."""

import json
import os
from collections.abc import Collection, Mapping
from typing import Any

from treaty.runtime._process.collector import collector_paused
from treaty.runtime._restore.source import Source
from treaty.runtime._storage.overtaken import Known
from treaty.runtime._trees import Path, dotted
from treaty.runtime.formats.safetensors import files
from treaty.runtime.formats.safetensors.files import PathLike
from treaty.runtime.formats.safetensors.members import file_at
from treaty.runtime.formats.safetensors.names import NOTE, SCHEMA, flatten, nest
from treaty.runtime.formats.shared.format import Writing
from treaty.schema import Schema, TreatyError


class SafetensorsSource(Source):
    asks_schema = True
    is_mapped = True

    def __init__(self, path: str | os.PathLike[str], known: Known | None = None) -> None:
        """The file or index itself, or the folder that holds it."""
        place = os.fspath(path)
        with collector_paused():
            self._tensors, self._said = files.read(file_at(place) or place)
        super().__init__(
            place, metadata={name: text for name, text in self._said.items() if name not in (NOTE, SCHEMA)}
        )
        self.digest, self.revisions = _schema_of(self._said)

    def whole(self, schema: Schema | None) -> Any:
        with collector_paused():
            return nest(self._tensors, self._said, schema)

    def named(self) -> Mapping[str, Any]:
        """Names of other people's files need not fit into a tree."""
        return dotted(self.whole(None)) if NOTE in self._said else self._tensors


def write_tree(path: str, tree: dict[str, Any], writing: Writing) -> None:
    dump(
        path,
        tree,
        max_shard_bytes=writing.max_shard_bytes,
        metadata=writing.metadata,
        ordered=writing.ordered,
        schema=_schema_note(writing),
    )


def _schema_note(writing: Writing) -> str | None:
    """Which revisions were written; a class that is not locked has none, and its file is like anybody's."""
    if writing.schema is None or not writing.revisions:
        return None
    return json.dumps({"digest": writing.schema.digest, "revisions": dict(writing.revisions)}, separators=(",", ":"))


def _schema_of(said: Mapping[str, str]) -> tuple[str | None, Mapping[str, int]]:
    """What is not as this version writes it is left aside: then the structure has to tell."""
    try:
        data = json.loads(said.get(SCHEMA, "null"))
        revisions = {str(name): number for name, number in data["revisions"].items() if type(number) is int}
        return str(data["digest"]), revisions
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None, {}


def dump(
    path: PathLike,
    tree: Mapping[str, Any],
    *,
    max_shard_bytes: int | None = None,
    metadata: Mapping[str, str] | None = None,
    ordered: Collection[Path] | None = None,
    schema: str | None = None,
) -> None:
    """As `save`, for a state dict: nested dicts of arrays, lazy ones too, and Python values.

    The order of its dicts is kept, or of those that are `ordered`.
    """
    # "pt" is the format's name for weights: without it some loaders refuse a file.
    said = {"format": "pt", **({} if schema is None else {SCHEMA: schema}), **(metadata or {})}
    if not all(isinstance(text, str) for pair in said.items() for text in pair) or NOTE in said:
        raise TreatyError(f"expected metadata of text by name, and none at {NOTE!r}, got {metadata!r}")
    with collector_paused():
        named = flatten(tree, ordered)
    files.write(path, named.tensors, said if named.note is None else {**said, NOTE: named.note}, max_shard_bytes)
