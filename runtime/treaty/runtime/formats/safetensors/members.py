"""The files under one name: a single one, or an index and its shards. Which of them are the checkpoint, and how others become it.

The names of shards are new for each save, `model-<save>-00001-of-00002.safetensors`, and the save is in the metadata of
every shard and of the index. So the index, or the single file, which comes last and at once, decides between the old
checkpoint and the new one, and a reader who finds files of two saves knows it.
"""

import os
import re
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError, MissingCheckpointError
from treaty.runtime._process.watching import log
from treaty.runtime._storage.directories import sync_directory
from treaty.runtime._storage.files import map_file
from treaty.runtime._storage.overtaken import Known, known_file, mark
from treaty.runtime._storage.paths import is_stray
from treaty.runtime.formats.safetensors.header import MOST, parse
from treaty.runtime.formats.safetensors.shard_names import INDEX, SUFFIX, derive_base_prefix_from_path, index_filename
from treaty.runtime.formats.shared.json_text import parse_json

SAVE: Final = "treaty.save"  # in the metadata
_OF_A_SAVE: Final = re.compile(r"(?P<name>.*)-(?P<save>[0-9a-f]{12})-[0-9]{5,}-of-[0-9]{5,}\.safetensors", re.DOTALL)
_NUMBERED: Final = re.compile(r".*-[0-9]{5,}-of-([0-9]{5,})\.safetensors", re.DOTALL)
_TICKS: Final = (1, 2 * 10**9)  # nanoseconds by which file systems tell times apart


def chosen(place: str) -> str:
    """The file or index that a path means; where both are there, since a save was killed, the one that came later."""
    prefix = derive_base_prefix_from_path(place)
    index = index_filename(prefix)
    if place.endswith(".json") or not os.path.exists(index):
        return place
    if not os.path.exists(place):
        return index
    return index if place == prefix + SUFFIX and _is_later(index, place) else place


def in_folder(folder: str | os.PathLike[str]) -> list[str]:
    """The files or indexes, by name, that a folder could be given for."""
    names = sorted(name for name in os.listdir(folder) if name.endswith((SUFFIX, INDEX)) and not is_stray(name))
    indexes = [name for name in names if name.endswith(INDEX)]
    if len(indexes) == 1:
        single = indexes[0].removesuffix(INDEX) + SUFFIX
        newer = chosen(os.path.join(folder, single)) if single in names else ""
        return [single] if newer.endswith(SUFFIX) and SAVE in _said_by(Path(folder, indexes[0]))[1] else indexes
    return indexes or [name for name in names if not _OF_A_SAVE.fullmatch(name)] or names


def file_at(path: str) -> str | None:
    """The file or index that a path means: itself, the index beside a name that is not there, or the one in a folder."""
    if os.path.isdir(path):
        found = in_folder(path)
        return os.path.join(path, found[0]) if len(found) == 1 and not _is_lone_shard(found[0]) else None
    place = chosen(path)
    return place if os.path.isfile(place) else None


def hint(path: str) -> str | None:
    """Of a folder that holds more than one checkpoint, or only a part of one."""
    found = in_folder(path)
    some = ", ".join(found[:4]) + (", …" if len(found) > 4 else "")
    return f"expected one safetensors file, or one index, got {some} in {path}; give the path of one" if found else None


def _is_lone_shard(name: str) -> bool:
    """One of several: alone, without their index, it is not a checkpoint."""
    match = _NUMBERED.fullmatch(name)
    return match is not None and int(match[1]) > 1


def known_safetensors(path: str, held: ExitStack) -> Known:
    """A file, or an index and its shards: those of one save are tied together, those of others by their times only."""
    place = chosen(path)
    if not place.endswith(".json"):
        return known_file(place, held)

    def look() -> object:
        try:
            weight_map, metadata = read_index(Path(place))
        except (CorruptCheckpointError, OSError):
            return mark(place), None, ()
        shards = sorted(set(weight_map.values()))
        return mark(place), metadata.get(SAVE), tuple(mark(Path(place).with_name(shard)) for shard in shards)

    found = look()
    is_tied = isinstance(found, tuple) and found[1] is not None
    return Known((place, found), lambda: is_tied or look() == found)


def under_prefix(prefix: str) -> list[Path]:
    """What is there under the name of a checkpoint, and so is replaced by one: the single file, the index, shards."""
    folder, name = Path(prefix).parent, os.path.basename(prefix)
    ours = re.compile(rf"{re.escape(name)}(-[0-9]{{5,}}-of-[0-9]{{5,}})?\.safetensors(\.index\.json)?")
    found = [folder / one for one in sorted(os.listdir(folder)) if one.startswith(name)]
    return [one for one in found if ours.fullmatch(one.name) or _is_shard(one, name)]


def replaced_by(place: Path) -> list[Path]:
    """What a checkpoint at this place takes the place of: all files of its name."""
    return under_prefix(derive_base_prefix_from_path(str(place)))


def move(place: Path, files: list[Path], is_alone: bool) -> None:
    """Finished files, in any order, to where they are the checkpoint."""
    last_is_index = sorted(files, key=lambda one: one.name.endswith(".json"))
    put_in_place(derive_base_prefix_from_path(str(place)), last_is_index, is_alone=is_alone)


def remove(path: str) -> bool:
    """A file, or an index and its shards. A folder is removed as a whole.

    Where both are there, the one that counts goes after the other: else that would be the checkpoint again for a moment.
    Shards without their index are none.
    """
    if os.path.isdir(path) or not path.endswith((SUFFIX, INDEX)):
        return False
    prefix = derive_base_prefix_from_path(path)
    if path.endswith(SUFFIX) and path != f"{prefix}{SUFFIX}":
        raise InvalidArgumentError(f"expected a checkpoint, got a shard of one at {path}; give the path of the index")
    found = under_prefix(prefix) if os.path.isdir(os.path.dirname(path) or ".") else []
    if not found:
        raise MissingCheckpointError(f"expected a checkpoint, got nothing at {path}")
    counts, name = os.path.basename(chosen(prefix + SUFFIX)), os.path.basename(prefix)
    is_shard = {one: one.name not in (name + INDEX, name + SUFFIX) for one in found}
    for file in sorted(found, key=lambda one: (is_shard[one], one.name == counts)):
        file.unlink(missing_ok=True)
        sync_directory(file.parent)
    return True


def put_in_place(prefix: str, files: Sequence[Path], *, is_alone: bool) -> None:
    """Move finished files, of which the single one or the index is the last, to where they are the checkpoint."""
    *shards, last = files
    folder = Path(prefix).parent
    place, other = folder / last.name, Path(prefix + (SUFFIX if shards else INDEX))
    for one in (place, other):
        if one.is_dir():
            raise InvalidArgumentError(f"expected a file to replace, got a directory at {one}")
    replaced, new = set(_said_by(Path(prefix + INDEX))[0].values()), os.stat(last)
    try:
        for shard in shards:
            os.rename(shard, folder / shard.name)
        sync_directory(folder)
        _make_later(last, other)
        seen = os.stat(other) if other.exists() else None
        os.replace(last, place)
    except BaseException:
        if not place.exists() or not os.path.samestat(os.stat(place), new):  # or they are the checkpoint by now
            for shard in shards:
                (folder / shard.name).unlink(missing_ok=True)
        raise
    sync_directory(folder)
    if seen is not None and other.exists() and os.path.samestat(os.stat(other), seen):
        _remove_old(other)
        sync_directory(folder)
    clear(prefix, keep={one.name for one in files}, named=None if is_alone else replaced)


def clear(prefix: str, keep: Collection[str], named: Collection[str] | None = None) -> None:
    """Remove what earlier saves under this name left; only shards of these names where others may be writing theirs."""
    for found in under_prefix(prefix):
        if found.name not in keep and not found.is_dir() and (named is None or found.name in named):
            _remove_old(found)


def _remove_old(file: Path) -> None:
    """What cannot be removed makes no save fail: the new checkpoint is there, and is the later one."""
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s is replaced, but could not be removed: %s", file, error.strerror)


def read_index(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Which shard each tensor is in, and the metadata."""
    try:
        return _parse_index(path)
    except CorruptCheckpointError as error:
        raise CorruptCheckpointError(f"{error} in {path}") from None


def _parse_index(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    content = map_file(path)
    if len(content) > MOST:
        raise CorruptCheckpointError(f"expected an index of at most {MOST} bytes, got {len(content)}")
    index = parse_json(bytes(content), "an index")
    weight_map, metadata = index.get("weight_map"), index.get("metadata") or {}
    if not isinstance(weight_map, dict) or not isinstance(metadata, dict):
        raise CorruptCheckpointError("expected metadata and weight_map, got something else")
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or not _beside(shard):
            raise CorruptCheckpointError(f"expected a file beside the index, got {shard!r} at {name!r}")
    return weight_map, {name: value for name, value in metadata.items() if isinstance(value, str)}


def _beside(name: str) -> bool:
    return name.endswith(SUFFIX) and not any(sign in name for sign in "/\\\0:")


def _is_later(index: str, single: str) -> bool:
    """Whether an index of ours was written after a single file. Of others' files the one that is asked for counts."""
    try:
        return os.stat(index).st_mtime_ns > os.stat(single).st_mtime_ns and SAVE in _said_by(Path(index))[1]
    except FileNotFoundError:  # removed meanwhile, by a save that is about to end
        return os.path.exists(index)


def _make_later(file: Path, other: Path) -> None:
    """Of a single file and an index the one with the later time counts, whatever the clock says."""
    for tick in _TICKS:
        if other.exists() and os.stat(file).st_mtime_ns <= os.stat(other).st_mtime_ns:
            later = os.stat(other).st_mtime_ns + tick
            os.utime(file, ns=(later, later))
            sync_directory(file)


def _said_by(index: Path) -> tuple[dict[str, str], dict[str, str]]:
    """As `read_index`; of one that is damaged or gone it is not known what it said."""
    try:
        return read_index(index)
    except (CorruptCheckpointError, FileNotFoundError):
        return {}, {}


def _is_shard(path: Path, name: str) -> bool:
    """Whether a file is a shard of a save under this name. Others may have the same name by chance, so it must say so."""
    match = _OF_A_SAVE.fullmatch(path.name)
    if match is None or match["name"] != name or not path.is_file():
        return False
    try:
        data: Any = map_file(path)
        return parse(data)[1].get(SAVE) == match["save"]
    except (CorruptCheckpointError, FileNotFoundError):
        return False
