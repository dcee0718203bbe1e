"""The options of `restore`: checked before anything is read, in one place and in the same words for every format."""

from collections.abc import Mapping
from typing import Any, TypedDict

import attrs
from attrs import frozen
from jax.sharding import Mesh

from treaty.runtime._devices.shardings import Rules, check_placement
from treaty.runtime._restore.casts import check_cast
from treaty.runtime._restore.select import At, parse_paths
from treaty.runtime._state.registry import Codec
from treaty.runtime._state.state_dict import Into, check_arguments, class_dims
from treaty.schema import TreatyError
from treaty.schema.keymap import KeyMap


class RestoreOptions(TypedDict, total=False):
    """The keywords of every `restore`."""

    at: At
    dims: Mapping[str, int] | None
    keymap: KeyMap | None
    mesh: Mesh | None
    rules: Rules | None
    shardings: Any
    into: Into | None
    cast: Mapping[str, str] | None
    revision: int | None
    max_bytes_in_flight: int | None
    progress: bool | None


def _at(at: At) -> At:
    """None where all is wanted, however that was said."""
    return None if parse_paths(at) is None else at


@frozen(kw_only=True)
class Options:
    """What the caller of `restore` asked for."""

    at: At = attrs.field(default=None, converter=_at)
    dims: Mapping[str, int] | None = None
    keymap: KeyMap | None = None
    mesh: Mesh | None = None
    rules: Rules | None = None
    shardings: Any = None
    into: Into | None = None
    cast: Mapping[str, str] | None = None
    revision: int | None = None
    max_bytes_in_flight: int | None = None
    progress: bool | None = None

    @property
    def is_plain(self) -> bool:
        """Whether a checkpoint is wanted as it lies: all of it, on the default device or the host, and with no bar."""
        others = (self.at, self.keymap, self.mesh, self.rules, self.shardings, self.cast, self.revision)
        return all(one is None for one in (*others, self.max_bytes_in_flight)) and not self.progress

    def check(self, codec: Codec[Any]) -> None:
        if self.dims is not None and not isinstance(self.dims, Mapping):
            raise TreatyError(f"dims: expected a mapping of names to sizes, got {type(self.dims).__name__}")
        if self.keymap is not None and not isinstance(self.keymap, KeyMap):
            raise TreatyError(f"keymap: expected a KeyMap, got {type(self.keymap).__name__}")
        check_arguments(codec, class_dims(codec, self.dims, self.keymap), self.into)
        check_cast(self.cast)
        check_placement(self.mesh, self.rules, self.shardings, self.into)
        if self.revision is not None and (type(self.revision) is not int or self.revision < 1):
            raise TreatyError(f"expected a revision of 1 or more, got revision={self.revision!r}")
        if self.revision is not None and self.keymap is not None:
            raise TreatyError("expected revision or keymap, got both: a key map gives the names of the present class")
        limit = self.max_bytes_in_flight
        if limit is not None and (type(limit) is not int or limit < 1):
            raise TreatyError(f"expected max_bytes_in_flight of 1 or more, got {limit!r}")
