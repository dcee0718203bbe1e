"""Looking into a checkpoint: the manifest alone, no device, no user code, no JAX."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attrs import frozen

from treaty.runtime.directory._manifest import Contents, Leaf, parse_contents
from treaty.runtime.directory._places import PathLike, committed, place_of

if TYPE_CHECKING:
    from treaty.schema import Schema


@frozen(slots=False)
class Inspection:
    """What a checkpoint says about itself. The schema is read when it is asked for."""

    path: str
    class_id: str
    digest: str
    dims: Mapping[str, int]
    metadata: Mapping[str, Any]
    leaves: tuple[Leaf, ...]
    _contents: Contents

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
    """Read the manifest of a directory checkpoint; no array is touched."""
    place = place_of(path)
    found = parse_contents(committed(place), place.where)
    schema, digest = found.data["schema"], found.data["digest"]
    class_id = found.parser.text(schema.get("root") if type(schema) is dict else None, "schema")
    digest = found.parser.text(digest, "digest")
    return Inspection(place.where, class_id, digest, found.dims, found.metadata, found.leaves, found)
