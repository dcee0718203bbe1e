"""Looking into a checkpoint: the manifest alone, no device, no user code, no JAX."""

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from treaty.runtime.directory._manifest import Leaf, Manifest, parse
from treaty.runtime.directory._places import PathLike, committed, place_of
from treaty.schema import Schema


@frozen
class Inspection:
    """What a checkpoint says about itself."""

    path: str
    schema: Schema
    dims: Mapping[str, int]
    metadata: Mapping[str, Any]
    leaves: tuple[Leaf, ...]

    @property
    def class_id(self) -> str:
        return self.schema.root

    @property
    def digest(self) -> str:
        return self.schema.digest

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        return sum(leaf.nbytes for leaf in self.leaves)


def inspect(path: PathLike) -> Inspection:
    """Read the manifest of a directory checkpoint; no array is touched."""
    place = place_of(path)
    return inspection(place.where, parse(committed(place), place.where))


def inspection(where: str, manifest: Manifest) -> Inspection:
    return Inspection(where, manifest.schema, manifest.dims, manifest.metadata, manifest.leaves)
