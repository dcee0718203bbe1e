"""Looking into a checkpoint: the manifest alone, no device, no user code, no JAX."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime._storage.overtaken import Known
from treaty.runtime._storage.paths import path_or_url
from treaty.runtime.formats.directory.manifest import File, Leaf, parse_contents
from treaty.runtime.formats.directory.places import Place, committed
from treaty.runtime.formats.directory.presence import require_files
from treaty.runtime.formats.directory.steps import step_name
from treaty.runtime.formats.directory.values import read_values
from treaty.runtime.formats.shared.outcomes import Inspection
from treaty.schema import TreatyError


def inspect_known(path: str, known: Known) -> Inspection:
    """Read the manifest of a directory checkpoint; of other files it is seen that they are there, in full length."""
    place, content = known.seen
    found = parse_contents(committed(place, content), place.where)
    require_files(place, found.folder, found.files, found.leaves)
    schema, digest = found.data["schema"], found.data["digest"]
    class_id = found.parser.text(schema.get("root") if type(schema) is dict else None, "schema")
    digest = found.parser.text(digest, "digest")
    return Inspection(
        place.where,
        "treaty",
        found.leaves,
        found.metadata,
        class_id,
        digest,
        found.dims,
        found.schema,
        _step(path, place),
        partial(_values, place, content, found.folder, found.files, found.leaves),
    )


def _values(
    place: Place, content: bytes, data: str, files: Sequence[File], leaves: Sequence[Leaf]
) -> Mapping[tuple[str, ...], Any]:
    """Asked for when another checkpoint may have taken the place."""
    try:
        return read_values(place, data, files, leaves)
    except CorruptCheckpointError:
        if place.manifest() == content:
            raise
    raise TreatyError(f"expected {place.where} as it was inspected, got another checkpoint since; inspect it again")


def _step(path: str, place: Place) -> int | None:
    """The step that was taken of a directory of steps."""
    above, _, last = place.where.rpartition("/")
    name = step_name(last)
    given = path if path_or_url(path)[1] else str(Path(path).absolute())
    return name.step if name is not None and above == given.rstrip("/") else None
