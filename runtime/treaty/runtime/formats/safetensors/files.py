"""safetensors checkpoints on disk: one file, or numbered shards with an index that is written last."""

import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError, storing
from treaty.runtime._lazy import LazyArray
from treaty.runtime._process.collector import collector_paused
from treaty.runtime._process.uninterrupted import uninterrupted
from treaty.runtime._storage.files import map_file, write_pieces, write_stream
from treaty.runtime._storage.paths import local_path
from treaty.runtime._storage.workspace import is_left_at, workspace
from treaty.runtime.formats.safetensors.header import parse, render
from treaty.runtime.formats.safetensors.members import (
    SAVE,
    chosen,
    clear,
    put_in_place,
    read_index,
    under_prefix,
)
from treaty.runtime.formats.safetensors.names import NOTE, stored_as
from treaty.runtime.formats.safetensors.shard_names import (
    SUFFIX,
    derive_base_prefix_from_path,
    group_keys_by_shard_size,
    index_filename,
    shard_filename,
)
from treaty.runtime.formats.shared.host_array import host_array
from treaty.schema import TreatyError

PathLike: TypeAlias = str | os.PathLike[str]
_Tensors: TypeAlias = "dict[str, np.ndarray[Any, np.dtype[Any]]]"
_TOTAL: Final = "total_size"
_SMALL: Final = 4096  # bytes that are copied sooner than a view of them is made


@uninterrupted
def write(path: PathLike, tensors: Mapping[str, Any], metadata: Mapping[str, str], max_shard_bytes: int | None) -> None:
    """Write tensors to `path`, or to shards beside it with an index; what was there under this name is replaced."""
    place = local_path(path)
    prefix = derive_base_prefix_from_path(place)
    if place != prefix + SUFFIX or not os.path.basename(prefix):
        raise InvalidArgumentError(f"expected a path that ends in {SUFFIX} and names no shard, got {place!r}")
    if max_shard_bytes is not None and max_shard_bytes < 1:
        raise InvalidArgumentError(f"expected max_shard_bytes of 1 or more, got {max_shard_bytes}")
    for name in (_TOTAL, SAVE):
        if name in metadata:
            raise InvalidArgumentError(f"expected other metadata than {name!r}, which the index holds")
    groups = [] if max_shard_bytes is None else group_keys_by_shard_size(tensors, max_shard_bytes)
    with storing("write", place):
        present = Path(chosen(place))
        like = present if present.exists() else None
        if len(groups) > 1:
            _write_shards(place, groups, tensors, metadata, like)
        else:
            _write_single(place, tensors, metadata, like)


def read(path: PathLike) -> tuple[_Tensors, dict[str, str]]:
    """Tensors as views of mapped files, and the metadata, of a file, or of an index and its shards."""
    place = Path(chosen(local_path(path)))
    tensors, metadata = _read_shards(place) if place.name.endswith(".json") else _read_file(place)
    metadata.pop(SAVE, None)
    return tensors, metadata


def members(path: Path) -> list[Path]:
    """The files of a checkpoint: itself, or an index and the shards that it names."""
    if not path.name.endswith(".json"):
        return [path]
    return [path, *(path.parent / shard for shard in dict.fromkeys(read_index(path)[0].values()))]


def _write_file(path: PathLike, tensors: Mapping[str, Any], metadata: Mapping[str, str], like: Path | None) -> None:
    with collector_paused():
        head, order = render({name: stored_as(one.dtype, one.shape) for name, one in tensors.items()}, metadata)
    size = len(head) + sum(one.nbytes for one in tensors.values())
    write_stream(path, _pieces(head, order, tensors), size, like)


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
    path: str,
    groups: list[list[str]],
    tensors: Mapping[str, Any],
    metadata: Mapping[str, str],
    like: Path | None,
) -> None:
    """Aside, until all of them are on the disk."""
    prefix, save = derive_base_prefix_from_path(path), secrets.token_hex(6)
    index_name, name = (os.path.basename(one) for one in (index_filename(prefix), prefix))
    names = [shard_filename(f"{name}-{save}", number, len(groups)) for number in range(1, len(groups) + 1)]
    total = sum(math.prod(one.shape) * one.dtype.itemsize for one in tensors.values())
    weight_map = {key: shard for shard, keys in zip(names, groups, strict=True) for key in keys}
    plain = {name: text for name, text in metadata.items() if name != NOTE}  # the note is about all shards together
    index = {"metadata": {_TOTAL: total, **metadata, SAVE: save}, "weight_map": weight_map}
    with workspace(Path(path)) as space:
        for shard, keys in zip(names, groups, strict=True):
            _write_file(space.folder / shard, {key: tensors[key] for key in keys}, {**plain, SAVE: save}, like)
        write_pieces(space.folder / index_name, [json.dumps(index, indent=2).encode()], like)
        files = [space.folder / one for one in (*names, index_name)]
        put_in_place(prefix, files, is_alone=space.is_alone)


def _write_single(path: str, tensors: Mapping[str, Any], metadata: Mapping[str, str], like: Path | None) -> None:
    prefix = derive_base_prefix_from_path(path)
    if os.path.lexists(index_filename(prefix)):  # which must not be taken for the newer one of the two
        with workspace(Path(path)) as space:
            file = space.folder / os.path.basename(path)
            _write_file(file, tensors, metadata, like)
            put_in_place(prefix, [file], is_alone=space.is_alone)
        return
    _write_file(path, tensors, metadata, like)
    if len(under_prefix(prefix)) > 1 or is_left_at(Path(path)):
        with suppress(TreatyError), workspace(Path(path)) as space:  # a save that is under way cleans up after itself
            if space.is_alone:
                clear(prefix, keep={os.path.basename(path)})


def _read_file(path: Path) -> tuple[_Tensors, dict[str, str]]:
    data = map_file(path)
    try:
        columns, metadata = parse(data)
    except CorruptCheckpointError as error:
        raise CorruptCheckpointError(f"{error} in {path}") from None
    return columns.views(data), metadata


def _read_shards(path: Path) -> tuple[_Tensors, dict[str, str]]:
    weight_map, metadata = read_index(path)
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
        if SAVE in metadata and one.get(SAVE) != metadata[SAVE]:
            raise CorruptCheckpointError(f"expected shards of one save, got {shard!r} of another, in {path}")
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
