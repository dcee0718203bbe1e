"""What a checkpoint of each format is known by, so that its readers notice when another takes its place."""

import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from treaty.runtime._leaves.paths import INDEX as EFORMER_INDEX
from treaty.runtime._overtaken import Known, Look, held_directory, known_file, mark, still
from treaty.runtime._workspace import put_back
from treaty.runtime.directory._manifest import NAME as MANIFEST
from treaty.runtime.directory._places import place_of
from treaty.runtime.formats._orbax_aggregate import AGGREGATE
from treaty.runtime.formats._orbax_find import METADATA, OCDBT, find_item
from treaty.runtime.formats._safetensors_place import in_folder, known_safetensors
from treaty.schema import TreatyError

_OF_AN_ITEM: Final = (METADATA, AGGREGATE, OCDBT)  # which is all of it that is ever replaced


def looking_at(*paths: str | os.PathLike[str]) -> Look:
    """A look at what is at one path or more, whatever format it is of."""

    def look(held: ExitStack) -> Known:
        all_known = [_known(os.fspath(path), held) for path in paths]
        return Known([one.by for one in all_known], lambda: all(one.is_whole() for one in all_known))

    return look


def known_orbax(path: str, held: ExitStack, step: int | None = None, item: str | None = None) -> Known:
    """The item's directory itself, and what is written last into it."""
    with suppress(TreatyError, OSError):
        found = find_item(Path(path), step, item)
        return still(lambda: (str(found), held_directory(found, held), [mark(found / name) for name in _OF_AN_ITEM]))
    return Known(held_directory(path, held))


def _known(path: str, held: ExitStack) -> Known:
    if not os.path.isfile(path):
        if "://" in path or os.path.isfile(os.path.join(path, MANIFEST)):
            return Known(place_of(path).manifest())  # every byte is checked against it
        put_back(Path(path))
    if os.path.isdir(path):
        return _known_directory(path, held)
    return known_safetensors(path, held) if path.endswith((".safetensors", ".json")) else known_file(path, held)


def _known_directory(path: str, held: ExitStack) -> Known:
    if os.path.isfile(os.path.join(path, EFORMER_INDEX)):
        from treaty.runtime._leaves.store import Store  # with TensorStore, which files do without

        return Store.at(path).known(held)
    names = in_folder(path)
    return known_safetensors(os.path.join(path, names[0]), held) if len(names) == 1 else known_orbax(path, held)
