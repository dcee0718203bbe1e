"""Looking into a checkpoint: the manifest alone, no device, no user code, no JAX."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from treaty.runtime.directory._manifest import DATA, Contents, Leaf, parse_contents
from treaty.runtime.directory._places import PathLike, Place, use_committed
from treaty.runtime.directory._presence import require_files

if TYPE_CHECKING:
    from treaty.schema import Schema


class Inspection:
    """What a checkpoint says about itself. The schema is read when it is asked for."""

    def __init__(self, path: str, class_id: str, digest: str, contents: Contents) -> None:
        self.path = path
        self.class_id = class_id
        self.digest = digest
        self.dims: Mapping[str, int] = contents.dims
        self.metadata: Mapping[str, Any] = contents.metadata
        self.leaves: tuple[Leaf, ...] = contents.leaves
        self._contents = contents

    def __repr__(self) -> str:
        return f"<Inspection of {self.path}: {self.class_id}, {len(self.leaves)} leaves>"

    @cached_property
    def schema(self) -> "Schema":
        return self._contents.schema()

    @property
    def format(self) -> str:
        return "treaty"

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        return sum(leaf.nbytes for leaf in self.leaves)


def inspect(path: PathLike) -> Inspection:
    """Read the manifest of a directory checkpoint; of other files it is seen that they are there, in full length."""
    return use_committed(path, _inspect)


def _inspect(place: Place, content: bytes) -> Inspection:
    found = parse_contents(content, place.where)
    data = found.parser.matching(found.data["data"], DATA, "data")
    require_files(place, data, found.files, found.leaves)
    schema, digest = found.data["schema"], found.data["digest"]
    class_id = found.parser.text(schema.get("root") if type(schema) is dict else None, "schema")
    digest = found.parser.text(digest, "digest")
    return Inspection(place.where, class_id, digest, found)
