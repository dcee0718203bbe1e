"""`verify`: read every byte of a checkpoint of any format."""

from typing import Any

from xxhash import xxh3_64_intdigest

from treaty.runtime._lazy import as_bytes, pieces_of
from treaty.runtime._process.progress import progress_bar
from treaty.runtime._process.uninterrupted import go_on, uninterrupted
from treaty.runtime._restore.source import Source
from treaty.runtime._storage.overtaken import Known
from treaty.runtime._storage.paths import AnyPath
from treaty.runtime._trees import flatten, is_stored_array
from treaty.runtime.formats.shared.format import Format
from treaty.runtime.formats.shared.outcomes import Verified
from treaty.runtime.formats.table import looking


def verify(path: AnyPath, *, progress: bool | None = None) -> Verified:
    """Read a checkpoint in full. What is damaged gives a CorruptCheckpointError, by leaf.

    Directories of Treaty have a checksum for every byte. Other formats have fewer, or none: of those it is known
    afterwards that every array can be read, and `is_checked` is False.
    """

    def use(format: Format, place: str, known: Known) -> Verified:
        if format.verify is not None:
            found: Verified = format.verify(place, known, progress)
            return found
        return _read_all(format.open(place, known), progress)

    return looking(path, use)


@uninterrupted
def _read_all(source: Source, progress: bool | None) -> Verified:
    source.require_files()
    leaves: list[Any] = [leaf for _, leaf in flatten(source.tree())]
    arrays = [leaf for leaf in leaves if is_stored_array(leaf)]
    total = sum(array.nbytes for array in arrays)
    with progress_bar("verify", total, progress) as advance:
        for array in arrays:
            for piece in pieces_of(array):
                go_on()
                xxh3_64_intdigest(as_bytes(piece))  # a mapped file is read when someone looks at it
                advance(piece.nbytes)
    return Verified(source.where, len(leaves), total)
