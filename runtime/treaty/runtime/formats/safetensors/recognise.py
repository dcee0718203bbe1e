"""How safetensors are recognised, and which files are one checkpoint."""

import os
from contextlib import ExitStack
from pathlib import Path

from treaty.runtime._storage.overtaken import Known
from treaty.runtime.formats.shared.format import Owns

SUFFIX = ".safetensors"
INDEX = ".safetensors.index.json"


def is_at(path: str) -> bool:
    """A file or an index, or the folder of one; the index beside a name that is not there, too."""
    if not path.endswith((SUFFIX, INDEX)):
        if os.path.isdir(path):
            if not any(name.endswith((SUFFIX, INDEX)) for name in os.listdir(path)):
                return False
        elif not _has_header(path):
            return False
    from treaty.runtime.formats.safetensors.members import file_at

    return file_at(path) is not None


def _has_header(path: str) -> bool:
    """Whether a file begins with the length of its header, and then JSON."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        start = file.read(9)
    return start[8:] == b"{" and int.from_bytes(start[:8], "little") <= os.path.getsize(path)


def look(path: str, held: ExitStack) -> Known:
    from treaty.runtime.formats.safetensors.members import file_at, known_safetensors

    return known_safetensors(file_at(path) or path, held)


def members(path: str) -> list[Path]:
    from treaty.runtime.formats.safetensors import files
    from treaty.runtime.formats.safetensors.members import file_at

    return files.members(Path(file_at(path) or path))


def owns(path: Path) -> list[Owns]:
    names = {one.name for one in members(str(path))}
    return [lambda name: name in names]
