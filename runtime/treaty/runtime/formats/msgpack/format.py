"""MessagePack, as a format."""

import os

from treaty.runtime._storage.overtaken import known_file
from treaty.runtime.formats.shared.format import Format, later

SUFFIXES = (".msgpack", ".msgpack.gz", ".msgpack.zst")
_HERE = "treaty.runtime.formats.msgpack"


def _is_at(path: str) -> bool:
    """By name, or by a first byte that begins a map: it has no sign of its own, so that it is looked for last."""
    if not os.path.isfile(path):
        return False
    return path.endswith(SUFFIXES) or begins_a_map(path)


def begins_a_map(path: str) -> bool:
    with open(path, "rb") as file:
        start = file.read(1)
    return start != b"" and (start[0] & 0xF0 == 0x80 or start[0] in (0xDE, 0xDF))


FORMAT = Format(
    name="msgpack",
    suffixes=SUFFIXES,
    is_at=_is_at,
    look=known_file,
    open=later(f"{_HERE}.source:MessagePackSource"),
    write=later(f"{_HERE}.source:write_tree"),
    write_instance=later(f"{_HERE}.instances:save_file"),
)
