"""A format of one package, as small as one can be: a JSON file `x.toy` of nested objects, whose arrays are in base64."""

import base64
import json
import os
from typing import Any

import numpy as np

from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime._lazy import LazyArray, as_bytes, host
from treaty.runtime._restore.source import Source
from treaty.runtime._storage.files import write_pieces
from treaty.runtime._storage.overtaken import Known, known_file
from treaty.runtime._trees import flatten, is_stored_array, nest
from treaty.runtime.formats.shared import json_values
from treaty.runtime.formats.shared.format import Format, Writing
from treaty.runtime.formats.shared.json_text import parse_json
from treaty.schema.dtypes import BY_NAME


def _is_at(path: str) -> bool:
    return path.endswith(".toy") and os.path.isfile(path)


def _open(path: str, known: Known) -> Source:
    with open(path, "rb") as file:
        leaves = parse_json(file.read(), path)["leaves"]
    return Source(path, nest((tuple(keys), _leaf(keys, *leaf)) for keys, leaf in leaves))


def _leaf(keys: list[str], dtype: str | None, shape: list[int], contents: Any) -> Any:
    if dtype is None:
        return json_values.decode(contents, keys)

    def read() -> Any:
        found = base64.b64decode(contents)
        try:
            return np.frombuffer(found, BY_NAME[dtype].numpy).reshape(shape)
        except ValueError:
            raise CorruptCheckpointError(f"expected {dtype}{shape}, got {len(found)} bytes at {keys}") from None

    return LazyArray(tuple(shape), BY_NAME[dtype].numpy, read)


def _write(path: str, tree: dict[str, Any], writing: Writing) -> None:
    leaves = [[keys, _stored(keys, leaf)] for keys, leaf in flatten(tree)]
    write_pieces(path, [json.dumps({"leaves": leaves}).encode()])


def _stored(keys: tuple[str, ...], leaf: Any) -> list[Any]:
    if not is_stored_array(leaf):
        return [None, [], json_values.encode(leaf, keys)]
    return [leaf.dtype.name, leaf.shape, base64.b64encode(as_bytes(host(leaf).reshape(-1))).decode()]


FORMAT = Format(name="toy", suffixes=(".toy",), is_at=_is_at, look=known_file, open=_open, write=_write)
