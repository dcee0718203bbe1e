"""From how many bytes on an array is stored in parts. Users assign it to `serialization.MAX_CHUNK_SIZE`, as they do to Flax's."""

from collections.abc import Mapping
from typing import Any

_NAME = "MAX_CHUNK_SIZE"
_assigned: Mapping[str, Any] = {_NAME: 2**30}


def ask_there(names: Mapping[str, Any]) -> None:
    """Let the names of a module say it from now on: nothing here imports that module, which imports us."""
    global _assigned
    _assigned = names


def chunk_bytes() -> int:
    size: int = _assigned[_NAME]
    return size
