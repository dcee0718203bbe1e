"""`inspect`: what a checkpoint of any format holds. Arrays stay where they are."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from treaty.runtime._errors import InvalidArgumentError, storing
from treaty.runtime._storage.overtaken import Known
from treaty.runtime._storage.paths import AnyPath, path_or_url
from treaty.runtime.formats.shared.format import Format
from treaty.runtime.formats.shared.outcomes import Inspection
from treaty.runtime.formats.table import format_at, looking

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


def inspect_step(path: AnyPath, step: int) -> Inspection:
    """Look into one step of a directory of steps, of Treaty's manager or of Orbax's."""
    place, _ = path_or_url(path)
    with storing("read", place):
        format = format_at(place)
    if format.step_path is None:
        raise InvalidArgumentError(f"expected a directory of steps, got a checkpoint of {format.name} at {place}")
    found = inspect(format.step_path(place, step))
    found.step = step
    return found


def _listed(source: "Source", name: str) -> Inspection:
    source.require_files()
    values: dict[tuple[str, ...], Any] = {}
    leaves = list(_leaves(source.tree(), values))
    return Inspection(source.where, name, leaves, source.metadata, step=source.step, values=lambda: values)


def _leaves(tree: Any, values: dict[tuple[str, ...], Any]) -> Iterator[_Listed]:
    import numpy as np

    from treaty.runtime._trees import flatten, is_stored_array

    for path, leaf in flatten(tree):
        if is_stored_array(leaf):
            yield _Listed(path, str(leaf.dtype), tuple(leaf.shape), leaf.nbytes)
        elif isinstance(leaf, np.generic):
            values[path] = leaf.item()
            yield _Listed(path, str(leaf.dtype), (), leaf.nbytes)
        else:
            values[path] = leaf
            yield _Listed(path)
