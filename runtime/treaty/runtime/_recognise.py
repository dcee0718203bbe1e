"""What lies at a path: the format that `restore` and `treaty inspect` are to read."""

import os
from pathlib import Path
from typing import Final

from treaty.runtime._errors import InvalidArgumentError, MissingCheckpointError
from treaty.runtime._paths import local_path, path_or_url
from treaty.runtime.directory._manifest import NAME as MANIFEST
from treaty.schema import TreatyError

MSGPACK: Final = (".msgpack", ".msgpack.gz", ".msgpack.zst")
SAFETENSORS: Final = (".safetensors", ".safetensors.index.json")


def format_at(place: str) -> str:
    """The name of a format. What Treaty writes is known by its suffix or manifest, all else by a look inside.

    Of a directory that nothing is known of, the reader of Treaty's directories says what it lacks.
    """
    is_url = path_or_url(place)[1]
    if is_url and place.rstrip("/").endswith((*MSGPACK, *SAFETENSORS, ".npz")):
        local_path(place)
    if is_url or os.path.isfile(os.path.join(place, MANIFEST)):
        return "treaty"
    is_directory = os.path.isdir(place)
    if place.endswith(SAFETENSORS) and not is_directory:
        return "safetensors"
    if place.endswith(MSGPACK) and not is_directory:
        if not os.path.exists(place):
            raise MissingCheckpointError(f"expected a file, got nothing at {place!r}")
        return "msgpack"
    if not os.path.exists(place):
        return "treaty"
    from treaty.runtime.formats import _table as formats  # which imports the readers of all of them

    try:
        return formats.recognise(Path(place))
    except (InvalidArgumentError, MissingCheckpointError):
        _refuse_several(place)
        return "treaty" if is_directory else "msgpack"


def safetensors_in(place: str) -> str:
    """The file or index that a path means: in a folder the one that it holds."""
    return os.path.join(place, *_safetensors(place)[:1]) if os.path.isdir(place) else place


def _refuse_several(place: str) -> None:
    names = _safetensors(place) if os.path.isdir(place) else []
    if names:
        some = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
        raise TreatyError(f"expected one safetensors file, or one index, got {some} in {place}; give the path of one")


def _safetensors(place: str) -> list[str]:
    from treaty.runtime.formats._safetensors_place import in_folder

    return in_folder(place)
