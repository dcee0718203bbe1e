"""Checking a whole checkpoint: every file, every byte, and that its leaves fit its schema."""

from typing import Any

from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime._process.progress import progress_bar
from treaty.runtime._state.explain import explain
from treaty.runtime._storage.overtaken import Known
from treaty.runtime._trees import nest, struct
from treaty.runtime.formats.directory.manifest import parse
from treaty.runtime.formats.directory.places import committed
from treaty.runtime.formats.directory.presence import corrupt
from treaty.runtime.formats.directory.read import NUMPY, CheckpointReader
from treaty.runtime.formats.shared.outcomes import Verified


def verify_known(path: str, known: Known, progress: bool | None) -> Verified:
    """Read a directory checkpoint in full; a CorruptCheckpointError lists what is wrong, by leaf."""
    place, content = known.seen
    manifest = parse(committed(place, content), place.where)
    total = sum(leaf.nbytes for leaf in manifest.leaves)
    with progress_bar("verify", total, progress) as advance:
        reader = CheckpointReader(place, manifest)
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
                advance(sum(manifest.leaves[number].nbytes for number in numbers))
                tree += [(manifest.leaves[number].path, value) for number, value in values.items()]
        for number, leaf in enumerate(manifest.leaves):
            if leaf.is_chunked:
                assert leaf.dtype is not None
                problems += reader.check_chunks(number, advance)
                tree.append((leaf.path, struct(leaf.shape, NUMPY[leaf.dtype])))
        if not problems:
            problems += map(str, explain(manifest.schema, nest(tree)))
    if problems:
        raise corrupt(place, problems)
    return Verified(place.where, len(manifest.leaves), total, is_checked=True)
