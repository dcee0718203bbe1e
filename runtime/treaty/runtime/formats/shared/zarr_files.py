"""Which files are those of zarr arrays, of version 2 or 3."""

import re
from collections.abc import Callable, Collection
from typing import Final

_FILE: Final = r"\.zarray|\.zattrs|zarr\.json|[0-9]+(\.[0-9]+)*|c((/|\.)[0-9]+)*"


def of_arrays(places: Collection[str]) -> Callable[[str], bool]:
    """Whether a file is one of an array in these directories."""

    def owns(name: str) -> bool:
        parts = name.split("/")
        return any(
            "/".join(parts[:cut]) in places and re.fullmatch(_FILE, "/".join(parts[cut:])) is not None
            for cut in range(1, len(parts))
        ) or ("." in places and re.fullmatch(_FILE, name) is not None)

    return owns
