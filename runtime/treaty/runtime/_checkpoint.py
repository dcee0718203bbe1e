"""`save` and `restore`: which format a path means, and who reads it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from jax.sharding import Mesh

from treaty.runtime import _bytes, _restore_tree
from treaty.runtime._forks import check_readable
from treaty.runtime._paths import AnyPath, local_path, path_or_url
from treaty.runtime._recognise import MSGPACK, SAFETENSORS, format_at
from treaty.runtime._sharding.shardings import Rules
from treaty.runtime._state.state_dict import Into
from treaty.runtime.directory._processes import team
from treaty.schema import TreatyError
from treaty.schema.keymap import KeyMap

if TYPE_CHECKING:
    from treaty.runtime.directory import SaveHandle

_T = TypeVar("_T")
_FILES: Final = (*MSGPACK, *SAFETENSORS)
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
    path: AnyPath,
    state: object,
    *,
    cls: Any = None,
    keymap: KeyMap | None = None,
    metadata: Mapping[str, Any] | None = None,
    max_shard_bytes: int | None = None,
    timeout: float | None = None,
) -> None:
    """Write an instance to a file (`.msgpack`, `.msgpack.gz`, `.msgpack.zst`, `.safetensors`) or else to a directory or URL.

    What was there before is replaced only when the new checkpoint is whole and on the disk, so after a crash or a power
    cut there is the one or the other. Arrays are written from where they are. `cls` names the generic alias where the class
    of `state` alone does not say it. `metadata` is kept by directories (anything that JSON holds) and safetensors (text by
    name). `max_shard_bytes` splits safetensors, and `keymap` gives them the names and layouts of its stored side.
    Several processes save to a directory together, and wait for each other for `timeout` seconds, by default 3600.
    """
    with _telling(path):
        check_readable(state)
        place, is_url = path_or_url(path)
        if is_url and place.rstrip("/").endswith((*_FILES, *_OTHERS)):
            local_path(place)
        if not place.endswith(_FILES) and place.rstrip("/").endswith((*MSGPACK, *_OTHERS)):
            raise TreatyError(f"expected {', '.join(MSGPACK)}, .safetensors or a directory, got {place!r}")
        for name, value in (("max_shard_bytes", max_shard_bytes), ("keymap", keymap)):
            if value is not None and not place.endswith(SAFETENSORS):
                raise TreatyError(f"expected a .safetensors path for {name}, got {place!r}")
        if timeout is not None and place.endswith(_FILES):
            raise TreatyError(f"expected a directory for timeout, got {place!r}")
    if place.endswith(MSGPACK):
        if metadata is not None:
            raise TreatyError(f"expected a directory or a .safetensors path for metadata, got {place!r}")
        _bytes.save_file(place, state, cls)
    elif place.endswith(SAFETENSORS):
        from treaty.runtime.formats import safetensors

        safetensors.save(place, state, cls=cls, keymap=keymap, metadata=metadata, max_shard_bytes=max_shard_bytes)
    else:
        from treaty.runtime import directory

        patience = {} if timeout is None else {"timeout": timeout}
        directory.save(place, state, cls=cls, metadata=metadata, **patience)


def save_async(
    path: AnyPath,
    state: object,
    *,
    cls: Any = None,
    metadata: Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> "SaveHandle":
    """As `save` for a directory or URL, but return when the state is copied; the handle tells how the save ended."""
    from treaty.runtime import directory

    patience = {} if timeout is None else {"timeout": timeout}
    with _telling(""):
        place = path_or_url(path)[0]
        if place.rstrip("/").endswith((*_FILES, *_OTHERS)):
            raise TreatyError(f"expected a directory or a URL, got the file {place!r}; save writes files")
    return directory.save_async(place, state, cls=cls, metadata=metadata, **patience)


@contextmanager
def _telling(path: object) -> Iterator[None]:
    """A save to a directory that is refused here is one that other processes may wait for."""
    try:
        yield
    except (TypeError, TreatyError):
        if str(path).endswith(_FILES):
            raise
        with team():
            raise


@overload
def restore(
    path: AnyPath,
    cls: type[_T],
    *,
    at: str | Sequence[str] | None = None,
    dims: Mapping[str, int] | None = None,
    keymap: KeyMap | None = None,
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
    path: AnyPath,
    cls: _T,
    *,
    at: str | Sequence[str] | None = None,
    dims: Mapping[str, int] | None = None,
    keymap: KeyMap | None = None,
    mesh: Mesh | None = None,
    rules: Rules | None = None,
    shardings: Any = None,
    into: Into | None = None,
    cast: Mapping[str, str] | None = None,
    max_bytes_in_flight: int | None = None,
    progress: bool | None = None,
) -> _T: ...
def restore(
    path: AnyPath,
    cls: Any,
    *,
    at: str | Sequence[str] | None = None,
    dims: Mapping[str, int] | None = None,
    keymap: KeyMap | None = None,
    mesh: Mesh | None = None,
    rules: Rules | None = None,
    shardings: Any = None,
    into: Into | None = None,
    cast: Mapping[str, str] | None = None,
    max_bytes_in_flight: int | None = None,
    progress: bool | None = None,
) -> Any:
    """Build `cls`, a class, generic alias or template, from the checkpoint at `path`, whoever wrote it.

    That is what `save` wrote, or a file of Flax, safetensors or np.savez, a folder of safetensors, or a directory of Orbax
    (an item, a step, or a CheckpointManager's, of which the last committed step is taken) or eformer: what lies there says
    what it is. `keymap` says which of the stored names are which fields; `dims` are also sizes that it may need.

    Fields of jax.Array get jax arrays, `into="numpy"` keeps all on the host. `at` is the path of a subtree that `cls`
    describes (`"params"`, `"blocks[3].up"`), or a list of paths that are to be read while the rest is left. `mesh` with
    `rules` places arrays by the names of their dims (`{"d_ff": "model"}`) or by regular expressions on their paths,
    `shardings` as it says: one Sharding, or an instance of `cls` that holds them.

    Dtypes must be the declared ones; in a directory of `save` they may be narrower where that loses nothing, and
    `cast={"float32": "bfloat16"}` allows more anywhere. `max_bytes_in_flight` bounds the host memory of arrays on their way to
    a device; a progress bar is shown on a terminal (`progress` None) or always or never. A file is mapped, not read: host
    arrays are read-only views of it, and it may be replaced meanwhile, but must not be changed in place.
    """
    place = path_or_url(path)[0]
    if keymap is not None or format_at(place) != "treaty":
        wish = _restore_tree.Wish(at, dims, keymap, mesh, rules, shardings, into, cast, max_bytes_in_flight, progress)
        return _restore_tree.restore(place, cls, wish)
    from treaty.runtime import directory

    bound: dict[str, Any] = {} if max_bytes_in_flight is None else {"max_bytes_in_flight": max_bytes_in_flight}
    where: dict[str, Any] = {"mesh": mesh, "rules": rules, "shardings": shardings, "into": into}
    return directory.restore(place, cls, at=at, dims=dims, cast=cast, progress=progress, **where, **bound)
