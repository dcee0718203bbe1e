"""Files of np.savez, as a format."""

import os

from treaty.runtime._storage.overtaken import known_file
from treaty.runtime.formats.shared.format import Format, later

_HERE = "treaty.runtime.formats.npz"


def _is_at(path: str) -> bool:
    """By the first bytes of a zip archive."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) in (b"PK\3\4", b"PK\5\6")


FORMAT = Format(
    name="npz",
    suffixes=(".npz",),
    is_at=_is_at,
    look=known_file,
    open=later(f"{_HERE}.source:NpzSource"),
    write=later(f"{_HERE}.source:write_tree"),
)
