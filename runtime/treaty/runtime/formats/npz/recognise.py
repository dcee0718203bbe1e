"""How files of np.savez are recognised."""

import os


def is_at(path: str) -> bool:
    """By the first bytes of a zip archive."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) in (b"PK\3\4", b"PK\5\6")
