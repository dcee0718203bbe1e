"""`restore`: whatever lies at a path is recognised, opened, and built by the one pipeline."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Unpack, overload

from jax.sharding import Mesh

from treaty.runtime._devices.shardings import Rules
from treaty.runtime._restore.options import Options, RestoreOptions
from treaty.runtime._restore.pipeline import restore as run
from treaty.runtime._state.state_dict import Into
from treaty.runtime._storage.paths import AnyPath
from treaty.runtime.formats.table import reading
from treaty.schema.keymap import KeyMap

_T = TypeVar("_T")


@overload
def restore(path: AnyPath, cls: type[_T], **options: Unpack[RestoreOptions]) -> _T: ...
@overload
def restore(path: AnyPath, cls: _T, **options: Unpack[RestoreOptions]) -> _T: ...
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
    revision: int | None = None,
    max_bytes_in_flight: int | None = None,
    progress: bool | None = None,
) -> Any:
    """Build `cls`, a class, generic alias or template, from the checkpoint at `path`, whoever wrote it.

    That is what `save` wrote, or a file of Flax, safetensors or np.savez, a folder of safetensors, or a directory of Orbax
    (an item, a step, or a CheckpointManager's, of which the last committed step is taken) or eformer: what lies there says
    what it is. `keymap` says which of the stored names are which fields, and may need `dims` too.

    Sizes have to be those of the template, or `dims`: sizes of the dims of `cls`. Without either they are what the data says,
    and a checkpoint of a narrower model is as good; the log `treaty` then tells which were taken.

    Fields of jax.Array get jax arrays, `into="numpy"` keeps all on the host. `at` is the path of a subtree that `cls`
    describes (`"params"`, `"blocks[3].up"`), or a list of paths that are to be read while the rest is left. `mesh` with
    `rules` places arrays by the names of their dims (`{"d_ff": "model"}`) or by regular expressions on their paths,
    `shardings` as it says: one Sharding, or an instance of `cls` that holds them.

    A checkpoint of an earlier revision of the class is brought to the present one, as aliases, defaults, reserved keys and
    migrations say; one line on the log `treaty` tells what was not as it is. `revision` says which one was written, where
    the format does not and several fit.

    Dtypes must be the declared ones, or narrower ones that lose nothing; `cast={"float32": "bfloat16"}` allows more.
    `max_bytes_in_flight` bounds the host memory of arrays on their way to a device; a progress bar is shown on a terminal (`progress` None) or always or never. A file is mapped, not read: host
    arrays are read-only views of it, and it may be replaced meanwhile, but must not be changed in place.
    """
    options = Options(
        at=at,
        dims=dims,
        keymap=keymap,
        mesh=mesh,
        rules=rules,
        shardings=shardings,
        into=into,
        cast=cast,
        revision=revision,
        max_bytes_in_flight=max_bytes_in_flight,
        progress=progress,
    )
    return reading(path, lambda source: run(source, cls, options))
