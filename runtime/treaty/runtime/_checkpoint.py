"""`save` and `restore`: which format a path means, and who reads it."""

import os
from collections.abc import Mapping
from typing import Any, Final, TypeVar, overload

from treaty.runtime import _bytes
from treaty.runtime._state_dict import Into
from treaty.schema import TreatyError

_T = TypeVar("_T")
_SUFFIXES: Final = (".msgpack", ".msgpack.gz", ".msgpack.zst")


def save(path: str | os.PathLike[str], state: object, *, cls: Any = None) -> None:
    """Write an instance to a `.msgpack`, `.msgpack.gz` or `.msgpack.zst` file.

    The file is there as a whole or not at all, also after a power cut: a file that was there before is replaced
    only when the new one is on the disk. Arrays go from memory to the file without a copy. `cls` names the generic
    alias where the class of `state` alone does not say it.
    """
    place = os.fsdecode(path)
    if not place.endswith(_SUFFIXES):
        raise TreatyError(f"expected a path that ends in {', '.join(_SUFFIXES)}, got {place!r}")
    _bytes.save_file(place, state, cls)


@overload
def restore(
    path: str | os.PathLike[str],
    cls: type[_T],
    *,
    dims: Mapping[str, int] | None = None,
    into: Into | None = None,
) -> _T: ...
@overload
def restore(
    path: str | os.PathLike[str],
    cls: _T,
    *,
    dims: Mapping[str, int] | None = None,
    into: Into | None = None,
) -> _T: ...
def restore(
    path: str | os.PathLike[str],
    cls: Any,
    *,
    dims: Mapping[str, int] | None = None,
    into: Into | None = None,
) -> Any:
    """Build `cls`, a class, generic alias or template, from a file that `save` or Flax wrote.

    The file is mapped, not read: host arrays are read-only views of it, and it may be replaced meanwhile, but must not
    be changed in place. Fields of jax.Array get one transfer; `into="numpy"` keeps all arrays on the host.
    """
    place = os.fsdecode(path)
    if os.path.isdir(place):
        raise TreatyError(f"expected a file, got the directory {place!r}")
    return _bytes.restore_file(place, cls, dims=dims, into=into)
