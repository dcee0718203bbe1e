"""`save` and `restore`: which format a path means, and who reads it."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from jax.sharding import Mesh

from treaty.runtime import _bytes, _file_parts
from treaty.runtime._sharding.shardings import Rules
from treaty.runtime._state.state_dict import Into
from treaty.schema import TreatyError

if TYPE_CHECKING:
    from treaty.runtime.directory import SaveHandle

_T = TypeVar("_T")
_Path = str | os.PathLike[str]
_MSGPACK: Final = (".msgpack", ".msgpack.gz", ".msgpack.zst")
_SAFETENSORS: Final = (".safetensors", ".safetensors.index.json")
_OTHERS: Final = (
    ".bin",
    ".bz2",
    ".gz",
    ".h5",
    ".npy",
    ".npz",
    ".pickle",
    ".pkl",
    ".pt",
    ".pth",
    ".tar",
    ".xz",
    ".zip",
    ".zst",
)


def save(
    path: _Path,
    state: object,
    *,
    cls: Any = None,
    metadata: Mapping[str, Any] | None = None,
    max_shard_bytes: int | None = None,
) -> None:
    """Write an instance to a file (`.msgpack`, `.msgpack.gz`, `.msgpack.zst`, `.safetensors`) or else to a directory or URL.

    What was there before is replaced only when the new checkpoint is whole and on the disk, so after a crash or a power
    cut there is the one or the other. Arrays are written from where they are. `cls` names the generic alias where the class
    of `state` alone does not say it. `metadata` is kept by directories (anything that JSON holds) and safetensors (text by
    name); `max_shard_bytes` splits safetensors.
    """
    place = os.fsdecode(path)
    if not place.endswith((*_MSGPACK, *_SAFETENSORS)) and place.rstrip("/").endswith((*_MSGPACK, *_OTHERS)):
        raise TreatyError(f"expected {', '.join(_MSGPACK)}, .safetensors or a directory, got {place!r}")
    if not place.endswith(_SAFETENSORS) and max_shard_bytes is not None:
        raise TreatyError(f"expected a .safetensors path for max_shard_bytes, got {place!r}")
    if place.endswith(_MSGPACK):
        if metadata is not None:
            raise TreatyError(f"expected a directory or a .safetensors path for metadata, got {place!r}")
        _bytes.save_file(place, state, cls)
    elif place.endswith(_SAFETENSORS):
        from treaty.runtime.formats import safetensors

        safetensors.save(place, state, cls=cls, metadata=metadata, max_shard_bytes=max_shard_bytes)
    else:
        from treaty.runtime import directory

        directory.save(place, state, cls=cls, metadata=metadata)


def save_async(
    path: _Path, state: object, *, cls: Any = None, metadata: Mapping[str, Any] | None = None
) -> "SaveHandle":
    """As `save` for a directory or URL, but return when the state is copied; the handle tells how the save ended."""
    from treaty.runtime import directory

    if os.fsdecode(path).endswith((*_MSGPACK, *_SAFETENSORS)):
        raise TreatyError(f"expected a directory or a URL, got the file {os.fsdecode(path)!r}; save writes files")
    return directory.save_async(path, state, cls=cls, metadata=metadata)


@overload
def restore(
    path: _Path,
    cls: type[_T],
    *,
    at: str | Sequence[str] | None = None,
    dims: Mapping[str, int] | None = None,
    mesh: Mesh | None = None,
    rules: Rules | None = None,
    shardings: Any = None,
    into: Into | None = None,
    cast: Mapping[str, str] | None = None,
    max_bytes_in_flight: int | None = None,
    progress: bool | None = None,
) -> _T: ...
@overload
def restore(
    path: _Path,
    cls: _T,
    *,
    at: str | Sequence[str] | None = None,
    dims: Mapping[str, int] | None = None,
    mesh: Mesh | None = None,
    rules: Rules | None = None,
    shardings: Any = None,
    into: Into | None = None,
    cast: Mapping[str, str] | None = None,
    max_bytes_in_flight: int | None = None,
    progress: bool | None = None,
) -> _T: ...
def restore(
    path: _Path,
    cls: Any,
    *,
    at: str | Sequence[str] | None = None,
    dims: Mapping[str, int] | None = None,
    mesh: Mesh | None = None,
    rules: Rules | None = None,
    shardings: Any = None,
    into: Into | None = None,
    cast: Mapping[str, str] | None = None,
    max_bytes_in_flight: int | None = None,
    progress: bool | None = None,
) -> Any:
    """Build `cls`, a class, generic alias or template, from what `save`, Flax or safetensors wrote at `path`.

    Fields of jax.Array get jax arrays, `into="numpy"` keeps all on the host. `at` is the path of a subtree that `cls`
    describes (`"params"`, `"blocks[3].up"`), or a list of paths that are to be read while the rest is left. `mesh` with
    `rules` places arrays by the names of their dims (`{"d_ff": "model"}`) or by regular expressions on their paths,
    `shardings` as it says: one Sharding, or an instance of `cls` that holds them.

    A file is mapped, not read: host arrays are read-only views of it, and it may be replaced meanwhile, but must not be
    changed in place. Dtypes in a file must be the declared ones. In a directory they may be narrower where that loses
    nothing, and `cast={"float32": "bfloat16"}` allows more; there `max_bytes_in_flight` bounds the host memory of arrays on
    their way to a device, and a progress bar is shown on a terminal (`progress` None) or always or never.
    """
    place = os.fsdecode(path)
    chosen = {"at": at, "dims": dims, "mesh": mesh, "rules": rules, "shardings": shardings, "into": into}
    safetensors = place.endswith(_SAFETENSORS)
    if safetensors or (os.path.exists(place) and not os.path.isdir(place)):
        for name, value in (("cast", cast), ("max_bytes_in_flight", max_bytes_in_flight)):
            if value is not None:
                raise TreatyError(f"expected a directory for {name}, got the file {place!r}")
        return _file_parts.restore(place, cls, safetensors=safetensors, **chosen)
    if place.endswith(_MSGPACK) and not os.path.isdir(place):
        raise FileNotFoundError(f"expected a file, got nothing at {place!r}")
    from treaty.runtime import directory

    bound: dict[str, Any] = {} if max_bytes_in_flight is None else {"max_bytes_in_flight": max_bytes_in_flight}
    return directory.restore(place, cls, cast=cast, progress=progress, **bound, **chosen)
