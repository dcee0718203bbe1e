"""The formats that Treaty reads and writes, under one roof: how each is recognised, read as a state dict, and written.

Trees are nested dicts with str keys; leaves are arrays, lazy ones among them, and Python values.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError, MissingCheckpointError, show_keys
from treaty.runtime._leaves import tree as eformer
from treaty.runtime._leaves.paths import INDEX as EFORMER_INDEX
from treaty.runtime._recognise import MSGPACK
from treaty.runtime._state.explain import dims_of
from treaty.runtime._state.registry import codec_of_class
from treaty.runtime._state.trees import abstract
from treaty.runtime.directory import _tree as directory
from treaty.runtime.directory._manifest import NAME as MANIFEST
from treaty.runtime.formats import msgpack, npz, orbax, safetensors
from treaty.runtime.formats._orbax_find import looks_like_orbax
from treaty.runtime.formats._safetensors_files import members as safetensors_members
from treaty.runtime.formats._safetensors_place import chosen, in_folder
from treaty.schema import Schema, TreatyError

_SHARD: Final = re.compile(r".*-[0-9]{5,}-of-([0-9]{5,})\.safetensors", re.DOTALL)
_SHARD_INDEX: Final = ".safetensors.index.json"


@frozen
class Contents:
    """What a checkpoint holds: its tree, and metadata where the format has room for it: text, or all that JSON has."""

    tree: dict[str, Any]
    metadata: Mapping[str, Any] = field(factory=dict)


@frozen
class Options:
    """What a writer may be told. `cls` is the class of the tree, where one was given."""

    metadata: Mapping[str, Any] = field(factory=dict)
    max_shard_bytes: int | None = None
    cls: Any = None


@frozen
class Format:
    """`read` may keep temporary files in the folder that it is given. No `suffixes`: a directory."""

    suffixes: tuple[str, ...]
    is_at: Callable[[Path], bool]
    read: Callable[[Path, Path, Schema | None], Contents]
    write: Callable[[Path, dict[str, Any], Options], None]


def recognise(path: Path) -> str:
    """The name of the format of what is at `path`."""
    for name, format in FORMATS.items():
        if format.is_at(path):
            return name
    if not path.exists():
        raise MissingCheckpointError(f"expected a checkpoint, got nothing at {path}")
    if path.is_dir():
        raise MissingCheckpointError(
            f"expected a checkpoint of {', '.join(FORMATS)}, got a directory of none at {path}"
        )
    raise InvalidArgumentError(f"expected a checkpoint of {', '.join(FORMATS)}, got something else at {path}")


def meant(path: Path) -> str:
    """The name of the format that a path asks for by its suffix; other paths are directories of Treaty."""
    for name, format in FORMATS.items():
        if format.suffixes and path.name.endswith(format.suffixes):
            return name
    return DEFAULT


def read(path: Path, name: str, folder: Path, cls: Any = None) -> Contents:
    """The checkpoint at `path`; sequences become dicts with the keys "0", "1", …, as in every state dict.

    With `cls`, what the format leaves open is as its schema says.
    """
    found = FORMATS[name].read(path, folder, None if cls is None else codec_of_class(cls).schema)
    tree = _state_dict(found.tree, ())
    if type(tree) is not dict:
        raise CorruptCheckpointError(f"expected a tree, got {type(tree).__name__} in {path}")
    return Contents(tree, found.metadata)


def files_of(path: Path, name: str) -> list[Path]:
    """The file or directory that a checkpoint is; of safetensors the index and every shard."""
    return [path] if name != "safetensors" else safetensors_members(_safetensors_file(path) or path)


def _state_dict(node: Any, path: tuple[str, ...]) -> Any:
    if type(node) is list:
        node = {str(index): one for index, one in enumerate(node)}
    if type(node) is not dict:
        return node
    for key in node:
        if type(key) is not str:
            raise CorruptCheckpointError(f"expected text as keys, got {key!r} at {show_keys(path)}")
    return {key: _state_dict(one, (*path, key)) for key, one in node.items()}


def _starts(path: Path, count: int = 16) -> bytes:
    if not path.is_file():
        return b""
    with open(path, "rb") as file:
        return file.read(count)


def _is_msgpack(path: Path) -> bool:
    """By name, or by a first byte that begins a map; a file of any length may be one."""
    start = _starts(path)
    return bool(start) and (path.name.endswith(MSGPACK) or start[0] & 0xF0 == 0x80 or start[0] in (0xDE, 0xDF))


def _read_msgpack(path: Path, folder: Path, schema: Schema | None) -> Contents:
    return Contents(msgpack.read_tree(path, folder))


def _write_msgpack(path: Path, tree: dict[str, Any], options: Options) -> None:
    try:
        msgpack.write_file(path, tree)
    except TreatyError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"expected what MessagePack can hold, got {error}") from error


def _safetensors_file(path: Path) -> Path | None:
    """The file or index that a path means: itself, the index beside a name that is not there, or the one in a folder."""
    if path.is_dir():
        found = in_folder(path)
        return path / found[0] if len(found) == 1 and not _is_shard(path / found[0]) else None
    if path.name.endswith((".safetensors", _SHARD_INDEX)):
        one = Path(chosen(str(path)))
        return one if one.is_file() else None
    start = _starts(path)  # the length of the header, and then JSON
    return path if start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= path.stat().st_size else None


def _is_shard(path: Path) -> bool:
    """One of several: alone, without their index, it is no checkpoint."""
    match = _SHARD.fullmatch(path.name)
    return match is not None and int(match[1]) > 1


def _read_safetensors(path: Path, folder: Path, schema: Schema | None) -> Contents:
    return Contents(*safetensors.load_once(_safetensors_file(path) or path, schema=schema))


def _write_safetensors(path: Path, tree: dict[str, Any], options: Options) -> None:
    metadata = {name: one if isinstance(one, str) else json.dumps(one) for name, one in options.metadata.items()}
    safetensors.dump(path, tree, max_shard_bytes=options.max_shard_bytes, metadata=metadata)


def _is_treaty(path: Path) -> bool:
    return (path / MANIFEST).is_file() or any(path.glob("data-*/"))


def _read_treaty(path: Path, folder: Path, schema: Schema | None) -> Contents:
    return Contents(*directory.read_tree(path))


def _write_treaty(path: Path, tree: dict[str, Any], options: Options) -> None:
    if options.cls is None:
        directory.write_tree(path, tree, options.metadata)
        return
    schema = codec_of_class(options.cls).schema
    directory.write_tree(path, tree, options.metadata, schema, dims_of(schema, abstract(tree)))


def _read_eformer(path: Path, folder: Path, schema: Schema | None) -> Contents:
    return Contents(eformer.read_tree(path))


def _write_eformer(path: Path, tree: dict[str, Any], options: Options) -> None:
    eformer.write_tree(path, tree)


def _is_npz(path: Path) -> bool:
    return _starts(path)[:4] in (b"PK\3\4", b"PK\5\6")


def _read_npz(path: Path, folder: Path, schema: Schema | None) -> Contents:
    return Contents(npz.read_tree(path, schema=schema))


def _write_npz(path: Path, tree: dict[str, Any], options: Options) -> None:
    npz.write(path, tree)


def _read_orbax(path: Path, folder: Path, schema: Schema | None) -> Contents:
    return Contents(orbax.read_tree(path, schema=schema))


def _write_orbax(path: Path, tree: dict[str, Any], options: Options) -> None:
    orbax.write(path, tree, cls=options.cls)


# In the order in which they are looked for: MessagePack has no sign of its own, so it comes last.
FORMATS: Final[Mapping[str, Format]] = {
    "safetensors": Format(
        (".safetensors",), lambda path: _safetensors_file(path) is not None, _read_safetensors, _write_safetensors
    ),
    "treaty": Format((), _is_treaty, _read_treaty, _write_treaty),
    "eformer": Format((), lambda path: (path / EFORMER_INDEX).is_file(), _read_eformer, _write_eformer),
    "orbax": Format((), looks_like_orbax, _read_orbax, _write_orbax),
    "npz": Format((".npz",), _is_npz, _read_npz, _write_npz),
    "msgpack": Format(MSGPACK, _is_msgpack, _read_msgpack, _write_msgpack),
}
DEFAULT: Final = "treaty"
