"""`inspect`: what a checkpoint of any format holds. Arrays stay where they are."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from treaty.runtime._storage.overtaken import Known
from treaty.runtime._storage.paths import AnyPath
from treaty.runtime.formats.shared.format import Format
from treaty.runtime.formats.shared.outcomes import Inspection
from treaty.runtime.formats.table import looking

if TYPE_CHECKING:
    from treaty.runtime._restore.source import Source


class _Listed(NamedTuple):
    path: tuple[str, ...]
    dtype: str | None = None
    shape: tuple[int, ...] = ()
    nbytes: int = 0


def inspect(path: AnyPath) -> Inspection:
    """Look into a checkpoint of any format: every leaf, and of Treaty's own directories class, dims and schema too.

    That all files are there is seen, in full length where the format says how long they are.
    """
    return looking(path, _inspect)


def _inspect(format: Format, place: str, known: Known) -> Inspection:
    if format.inspect is not None:
        found: Inspection = format.inspect(place, known)
        return found
    from treaty.runtime._process.uninterrupted import uninterrupted

    return uninterrupted(_listed)(format.open(place, known), format.name)


def _listed(source: "Source", name: str) -> Inspection:
    source.require_files()
    return Inspection(source.where, name, list(_leaves(source.tree())), source.metadata)


def _leaves(tree: Any) -> Iterator[_Listed]:
    import numpy as np

    from treaty.runtime._trees import flatten, is_stored_array

    for path, leaf in flatten(tree):
        if is_stored_array(leaf) or isinstance(leaf, np.generic):
            yield _Listed(path, str(leaf.dtype), tuple(leaf.shape), leaf.nbytes)
        else:
            yield _Listed(path)
