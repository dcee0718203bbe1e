"""Which files in a checkpoint directory are the checkpoint's own: whoever replaces it must remove nothing else."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from treaty.runtime._leaves.paths import INDEX
from treaty.runtime._leaves.store import Store
from treaty.runtime._paths import is_stray
from treaty.runtime.directory._manifest import NAME as MANIFEST
from treaty.runtime.formats._orbax_find import COMMITTED, METADATA, OCDBT, STEP_METADATA, read_json
from treaty.runtime.formats._orbax_read import ARRAY_METADATA, STRINGS
from treaty.runtime.formats._safetensors_files import members
from treaty.schema import TreatyError

_Owns = Callable[[str], bool]
_TREATY: Final = re.compile(
    rf"{re.escape(MANIFEST)}|\.{re.escape(MANIFEST)}\.[0-9a-f]+\.tmp"
    r"|data-[0-9a-f]+/([0-9]+/)?(zarr\.json|c(\.[0-9]+)*|[a-z]+(-[0-9]+)?\.msgpack|part-[0-9]+\.json)"
    r"(_[0-9a-f]+\.__lock)?"  # what TensorStore had not renamed yet when a save was killed
)
_ORBAX: Final = re.compile(
    rf"{METADATA}|{STEP_METADATA}|{re.escape(COMMITTED)}|{re.escape(STRINGS)}|_sharding|{ARRAY_METADATA}/process_[0-9]+"
    rf"|(ocdbt\.process_[0-9]+/)?({re.escape(OCDBT)}|d/[0-9a-f]+)"
)
_SAFETENSORS: Final = (".safetensors", ".safetensors.index.json")
_ZARR: Final = re.compile(r"\.zarray|\.zattrs|zarr\.json|[0-9]+(\.[0-9]+)*|c((/|\.)[0-9]+)*")


def strangers(path: Path) -> list[str]:
    """The files below a directory that no checkpoint in it accounts for; all of them if there is no checkpoint."""
    owners = _owners(path)
    return sorted(name for name, is_plain in _files(path) if not is_plain or not any(owns(name) for owns in owners))


def _owners(path: Path) -> list[_Owns]:
    try:
        if (path / MANIFEST).is_file() or any(path.glob("data-*/")):
            return [lambda name: _TREATY.fullmatch(name) is not None]
        if (path / INDEX).is_file():
            index = Store.at(path).read_index()
            assert index is not None
            entries = [*(index.arrays or ()), *(entry for one in index.prefixes.values() for entry in one)]
            return [lambda name: name == INDEX, _of_arrays({entry.path for entry in entries})]
        if (path / METADATA).is_file():
            keys = [one["key_metadata"] for one in read_json(path / METADATA)["tree_metadata"].values()]
            arrays = {".".join(key["key"] for key in of_leaf) for of_leaf in keys}
            return [lambda name: _ORBAX.fullmatch(name) is not None, _of_arrays(arrays)]
        if (path / STEP_METADATA).is_file():
            items = [one for one in path.iterdir() if (one / METADATA).is_file()]
            return [lambda name: name in (STEP_METADATA, COMMITTED), *map(_of_item, items)]
        files = [one for one in path.iterdir() if one.name.endswith(_SAFETENSORS) and not is_stray(one.name)]
        heads = [one for one in files if one.name.endswith(".json")] or files
        if len(heads) == 1:
            names = {one.name for one in members(heads[0])}
            return [lambda name: name in names]
    except (TreatyError, KeyError, TypeError, AttributeError):
        pass  # of damaged metadata it is not known what it named
    return []


def _of_item(item: Path) -> _Owns:
    """What is an item's own, in the step that it is of."""
    owners = _owners(item)

    def owns(name: str) -> bool:
        above, _, below = name.partition("/")
        return above == item.name and any(one(below) for one in owners)

    return owns


def _of_arrays(places: set[str]) -> _Owns:
    """Files of zarr arrays in these directories."""

    def owns(name: str) -> bool:
        parts = name.split("/")
        return any(
            "/".join(parts[:cut]) in places and _ZARR.fullmatch("/".join(parts[cut:])) is not None
            for cut in range(1, len(parts))
        ) or ("." in places and _ZARR.fullmatch(name) is not None)

    return owns


def _files(path: Path) -> Iterator[tuple[str, bool]]:
    """Every file by its name below `path`, and whether it is a plain one: links are made by no format."""
    pending = [(path, "")]
    while pending:
        folder, prefix = pending.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append((Path(entry.path), f"{prefix}{entry.name}/"))
                elif not is_stray(entry.name):
                    yield prefix + entry.name, entry.is_file(follow_symlinks=False)
