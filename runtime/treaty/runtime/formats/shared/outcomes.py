"""What looking into a checkpoint, and reading all of it, tell. Nothing here needs numpy or JAX."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from treaty.schema import Schema


class ListedLeaf(Protocol):
    """A leaf of a checkpoint; `dtype` is None for what is not an array."""

    @property
    def path(self) -> tuple[str, ...]: ...
    @property
    def dtype(self) -> str | None: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...


class Inspection:
    """What a checkpoint says about itself. Class, digest, dims and schema are known of Treaty's own directories only."""

    def __init__(
        self,
        path: str,
        format: str,
        leaves: Sequence[ListedLeaf],
        metadata: Mapping[str, Any],
        class_id: str | None = None,
        digest: str | None = None,
        dims: Mapping[str, int] | None = None,
        schema: "Callable[[], Schema] | None" = None,
        step: int | None = None,
        values: "Callable[[], Mapping[tuple[str, ...], Any]] | None" = None,
    ) -> None:
        self.path = path
        self.format = format
        self.leaves = tuple(leaves)
        self.metadata = metadata
        self.class_id = class_id
        self.digest = digest
        self.dims = dims or {}
        self.step = step  # that was taken of a directory of steps
        self._read_schema = schema
        self._read_values = values

    def __repr__(self) -> str:
        return f"<Inspection of {self.path}: {self.class_id or self.format}, {len(self.leaves)} leaves>"

    @cached_property
    def schema(self) -> "Schema | None":
        """Read when it is asked for."""
        return None if self._read_schema is None else self._read_schema()

    @cached_property
    def values(self) -> "Mapping[tuple[str, ...], Any]":
        """The leaves that are no arrays, by path, an empty node as {}. Read when they are asked for; one of a type that
        only numpy knows may be left out."""
        return {} if self._read_values is None else self._read_values()

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        return sum(leaf.nbytes for leaf in self.leaves)


class Verified(NamedTuple):
    """What was read and found in order."""

    path: str
    leaves: int
    nbytes: int
    is_checked: bool = False  # whether every byte has a checksum; else it is known that all can be read
