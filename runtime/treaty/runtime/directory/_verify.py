"""Checking a whole checkpoint: every file, every byte, and that its leaves fit its schema."""

from typing import Any

import jax
from attrs import frozen

from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime._state.explain import explain
from treaty.runtime.directory._manifest import Manifest, nest
from treaty.runtime.directory._places import PathLike, Place
from treaty.runtime.directory._presence import corrupt
from treaty.runtime.directory._progress import progress_bar
from treaty.runtime.directory._read import NUMPY, Reader, read_committed


@frozen
class Verified:
    """What was read and found in order."""

    path: str
    leaves: int
    nbytes: int


def verify(path: PathLike, *, progress: bool | None = None) -> Verified:
    """Read a directory checkpoint in full; a CorruptCheckpointError lists what is wrong, by leaf."""
    return read_committed(path, lambda place, manifest: _verify(place, manifest, progress))


def _verify(place: Place, manifest: Manifest, progress: bool | None) -> Verified:
    total = sum(leaf.nbytes for leaf in manifest.leaves)
    with progress_bar("verify", total, progress) as advance:
        reader = Reader(place, manifest, advance)
        reader.check_files(range(len(manifest.leaves)))
        problems = reader.check_metadata()
        tree: list[tuple[tuple[str, ...], Any]] = []
        for index in range(len(manifest.files)):
            numbers = [number for number, leaf in enumerate(manifest.leaves) if leaf.file == index]
            try:
                values = reader.pack(index, numbers)
            except CorruptCheckpointError as error:
                problems += str(error).splitlines()[1:]
            else:
                tree += [(manifest.leaves[number].path, value) for number, value in values.items()]
        make: Any = jax.ShapeDtypeStruct
        for number, leaf in enumerate(manifest.leaves):
            if leaf.is_chunked:
                assert leaf.dtype is not None
                problems += reader.check_chunks(number)
                tree.append((leaf.path, make(leaf.shape, NUMPY[leaf.dtype])))
        if not problems:
            problems += map(str, explain(manifest.schema, nest(tree)))
    if problems:
        raise corrupt(place, problems)
    return Verified(place.where, len(manifest.leaves), total)
