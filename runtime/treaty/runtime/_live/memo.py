"""What was found for a structure, kept for the next trees of that structure."""

from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

_T = TypeVar("_T")
_MOST: Final = 64  # then all are forgotten


class Memo(Generic[_T]):
    """By keys of which some cannot be kept: the metadata of a structure may have no hash, or no clear equality."""

    def __init__(self) -> None:
        self._kept: dict[Any, _T] = {}

    def get(self, key: Any) -> _T | None:
        try:
            return self._kept.get(key)
        except (TypeError, ValueError):
            return None

    def keep(self, key: Any, found: _T) -> None:
        if len(self._kept) >= _MOST:
            self._kept.clear()
        with suppress(TypeError, ValueError):
            self._kept[key] = found
