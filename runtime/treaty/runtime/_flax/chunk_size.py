"""The size in bytes above which an array is stored in parts. Users assign `serialization.MAX_CHUNK_SIZE`, as they assign Flax's."""

from collections.abc import Mapping
from typing import Any

_NAME = "MAX_CHUNK_SIZE"
_assigned: Mapping[str, Any] = {_NAME: 2**30}


def ask_there(names: Mapping[str, Any]) -> None:
    """Look the size up in these names from now on. They are those of a module that imports this one, so they are handed over."""
    global _assigned
    _assigned = names


def chunk_bytes() -> int:
    size: int = _assigned[_NAME]
    return size
