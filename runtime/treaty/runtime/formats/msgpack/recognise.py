"""How MessagePack is recognised where no suffix says it."""

import os


def is_at(path: str) -> bool:
    """By a first byte that begins a map: it has no sign of its own, so that it is looked for last."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        start = file.read(1)
    return start != b"" and (start[0] & 0xF0 == 0x80 or start[0] in (0xDE, 0xDF))
