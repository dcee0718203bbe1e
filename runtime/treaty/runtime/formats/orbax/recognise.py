"""How Orbax checkpoints are recognised, and which files are theirs: an item, a step of items, or a CheckpointManager's directory of steps."""

import os
import re
from pathlib import Path
from typing import Final

from treaty.runtime.formats.shared.format import Owns
from treaty.runtime.formats.shared.zarr_files import of_arrays


def is_at(path: str) -> bool:
    if not os.path.isdir(path):
        return False
    from treaty.runtime.formats.orbax.find import looks_like_orbax

    return looks_like_orbax(Path(path))


def owns(path: Path) -> list[Owns]:
    from treaty.runtime.formats.orbax.find import COMMITTED, METADATA, STEP_METADATA, read_json

    if (path / METADATA).is_file():
        keys = [one["key_metadata"] for one in read_json(path / METADATA)["tree_metadata"].values()]
        arrays = {".".join(key["key"] for key in of_leaf) for of_leaf in keys}
        return [lambda name: re.fullmatch(_OWN, name) is not None, of_arrays(arrays)]
    items = [one for one in path.iterdir() if (one / METADATA).is_file()] if (path / STEP_METADATA).is_file() else []
    return [lambda name: name in (STEP_METADATA, COMMITTED), *map(_of_item, items)] if items else []


def _of_item(item: Path) -> Owns:
    """What is an item's own, in the step that it is of."""
    owners = owns(item)

    def of_item(name: str) -> bool:
        above, _, below = name.partition("/")
        return above == item.name and any(one(below) for one in owners)

    return of_item


_OWN: Final = (
    r"_METADATA|_CHECKPOINT_METADATA|commit_success\.txt|_strings\.json|_sharding|array_metadatas/process_[0-9]+"
    r"|(ocdbt\.process_[0-9]+/)?(manifest\.ocdbt|d/[0-9a-f]+)"
)
