"""safetensors checkpoints on disk: one file, or numbered shards with an index that is written last."""

import json
import math
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError
from treaty.runtime._files import map_file, sync_directory, write_pieces, write_stream
from treaty.runtime._lazy import LazyArray
from treaty.runtime._sharding.shard_files import (
    derive_base_prefix_from_path,
    group_keys_by_shard_size,
    index_filename,
    shard_filename,
)
from treaty.runtime._state.instances import collector_paused
from treaty.runtime.formats._msgpack_encode import host_array
from treaty.runtime.formats._safetensors_header import MOST, parse, parse_json, render
from treaty.runtime.formats._safetensors_names import NOTE, stored_as

PathLike: TypeAlias = str | os.PathLike[str]
_Tensors: TypeAlias = "dict[str, np.ndarray[Any, np.dtype[Any]]]"
_SUFFIX: Final = ".safetensors"
_TOTAL: Final = "total_size"
_SMALL: Final = 4096  # bytes that are copied sooner than a view of them is made


def write(path: PathLike, tensors: Mapping[str, Any], metadata: Mapping[str, str], max_shard_bytes: int | None) -> None:
    """Write tensors to `path`, or to shards beside it with an index; what was there under this name is replaced."""
    place = os.fspath(path)
    prefix = derive_base_prefix_from_path(place)
    if place != prefix + _SUFFIX or not os.path.basename(prefix):
        raise InvalidArgumentError(f"expected a path that ends in {_SUFFIX} and names no shard, got {place!r}")
    if max_shard_bytes is not None and max_shard_bytes < 1:
        raise InvalidArgumentError(f"expected max_shard_bytes of 1 or more, got {max_shard_bytes}")
    if _TOTAL in metadata:
        raise InvalidArgumentError(f"expected other metadata than {_TOTAL!r}, which the index holds")
    groups = [] if max_shard_bytes is None else group_keys_by_shard_size(tensors, max_shard_bytes)
    if len(groups) > 1:
        _write_shards(prefix, groups, tensors, metadata)
    else:
        _write_file(place, tensors, metadata)
        _clear(prefix, keep={os.path.basename(place)})


def read(path: PathLike) -> tuple[_Tensors, dict[str, str]]:
    """Tensors as views of mapped files, and the metadata, of a file, or of an index and its shards."""
    place = os.fspath(path)
    if not place.endswith(".json") and not os.path.exists(place):
        index = index_filename(derive_base_prefix_from_path(place))
        place = index if os.path.exists(index) else place
    return _read_shards(Path(place)) if place.endswith(".json") else _read_file(Path(place))


def members(path: Path) -> list[Path]:
    """The files of a checkpoint: itself, or an index and the shards that it names."""
    if not path.name.endswith(".json"):
        return [path]
    return [path, *(path.parent / shard for shard in dict.fromkeys(_index(path)[0].values()))]


def under_prefix(prefix: str) -> list[Path]:
    """What is there under the name of a checkpoint, and so is replaced by one: the single file, the index, shards."""
    folder, name = Path(prefix).parent, re.escape(os.path.basename(prefix))
    ours = re.compile(rf"{name}(-[0-9]{{5,}}-of-[0-9]{{5,}})?\.safetensors(\.index\.json)?")
    return [folder / found for found in sorted(os.listdir(folder)) if ours.fullmatch(found)]


def _write_file(path: str, tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    with collector_paused():
        head, order = render({name: stored_as(one.dtype, one.shape) for name, one in tensors.items()}, metadata)
    size = len(head) + sum(one.nbytes for one in tensors.values())
    write_stream(path, _pieces(head, order, tensors), size)


def _pieces(head: bytes, order: list[str], tensors: Mapping[str, Any]) -> Iterator[Any]:
    yield head
    for name in order:
        one = tensors[name]
        if one.nbytes < _SMALL and not isinstance(one, LazyArray):
            yield host_array(one).tobytes()
            continue
        for piece in one.pieces() if isinstance(one, LazyArray) else [one]:
            yield host_array(piece).reshape(-1).view(np.uint8)


def _write_shards(
    prefix: str, groups: list[list[str]], tensors: Mapping[str, Any], metadata: Mapping[str, str]
) -> None:
    """All shards are on the disk under other names before the first takes its place: a failure leaves the old ones."""
    names = [shard_filename(prefix, number, len(groups)) for number in range(1, len(groups) + 1)]
    names.append(index_filename(prefix))
    mark = secrets.token_hex(6)
    parts = [os.path.join(os.path.dirname(name), f".{os.path.basename(name)}.{mark}.part") for name in names]
    total = sum(math.prod(one.shape) * one.dtype.itemsize for one in tensors.values())
    weight_map = {key: os.path.basename(name) for name, keys in zip(names[:-1], groups, strict=True) for key in keys}
    plain = {name: text for name, text in metadata.items() if name != NOTE}  # the note is about all shards together
    index = {"metadata": {_TOTAL: total, **metadata}, "weight_map": weight_map}
    try:
        for part, keys in zip(parts[:-1], groups, strict=True):
            _write_file(part, {key: tensors[key] for key in keys}, plain)
        write_pieces(parts[-1], [json.dumps(index, indent=2).encode()])
        take_places(prefix, dict(zip(parts, names, strict=True)))
    except BaseException:
        for part in parts:
            Path(part).unlink(missing_ok=True)
        raise


def take_places(prefix: str, moves: Mapping[str, str]) -> None:
    """Rename finished files, the index last, to their places, and remove what an earlier save left under the prefix."""
    folder = Path(prefix).parent
    for name in moves.values():
        if os.path.isdir(name):
            raise InvalidArgumentError(f"expected a file to replace, got a directory at {name}")
    if len(moves) > 1:
        # Between the renames there is no index, so that no reader takes shards of two saves for one checkpoint.
        for old in (index_filename(prefix), prefix + _SUFFIX):
            Path(old).unlink(missing_ok=True)
        sync_directory(folder)
    for number, (part, name) in enumerate(moves.items(), 1):
        if number == len(moves):
            sync_directory(folder)
        os.replace(part, name)
    sync_directory(folder)
    _clear(prefix, keep=set(map(os.path.basename, moves.values())))


def _clear(prefix: str, keep: set[str]) -> None:
    """Remove what an earlier save under this name left: a loader could take it for part of this one."""
    for found in under_prefix(prefix):
        if found.name not in keep and not found.is_dir():
            found.unlink(missing_ok=True)


def _read_file(path: Path) -> tuple[_Tensors, dict[str, str]]:
    data = map_file(path)
    try:
        columns, metadata = parse(data)
    except CorruptCheckpointError as error:
        raise CorruptCheckpointError(f"{error} in {path}") from None
    return columns.views(data), metadata


def _read_shards(path: Path) -> tuple[_Tensors, dict[str, str]]:
    weight_map, metadata = _index(path)
    found: _Tensors = {}
    of_shards: dict[str, str] = {}
    names: dict[str, set[str]] = {}
    for name, shard in weight_map.items():
        names.setdefault(shard, set()).add(name)
    for shard, wanted in names.items():
        try:
            tensors, one = _read_file(path.parent / shard)
        except FileNotFoundError:
            raise CorruptCheckpointError(f"expected the shard {shard!r}, got no such file, named in {path}") from None
        if wanted != set(tensors):
            name = min(wanted ^ set(tensors))
            where = "missing in" if name in wanted else "also in"
            raise CorruptCheckpointError(
                f"expected in {shard!r} what the index says, got {name!r} {where} it, in {path}"
            )
        found |= tensors
        of_shards = one | of_shards
    of_shards.pop(NOTE, None)
    return {name: found[name] for name in weight_map}, of_shards | metadata


def _index(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Which shard each tensor is in, and the metadata."""
    try:
        return _parse_index(path)
    except CorruptCheckpointError as error:
        raise CorruptCheckpointError(f"{error} in {path}") from None


def _parse_index(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    if path.stat().st_size > MOST:
        raise CorruptCheckpointError(f"expected an index of at most {MOST} bytes, got {path.stat().st_size}")
    index = parse_json(path.read_bytes(), "an index")
    weight_map, metadata = index.get("weight_map"), index.get("metadata") or {}
    if not isinstance(weight_map, dict) or not isinstance(metadata, dict):
        raise CorruptCheckpointError("expected metadata and weight_map, got something else")
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or not _beside(shard):
            raise CorruptCheckpointError(f"expected a file beside the index, got {shard!r} at {name!r}")
    return weight_map, {name: value for name, value in metadata.items() if isinstance(value, str)}


def _beside(name: str) -> bool:
    return name.endswith(_SUFFIX) and not any(sign in name for sign in "/\\\0:")
