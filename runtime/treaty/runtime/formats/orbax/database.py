"""Which files the values of an OCDBT database are in: it names them in its nodes, and a lost one is seen on reading only."""

import os
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import tensorstore as ts

from treaty.runtime._errors import CorruptCheckpointError
from treaty.runtime._process.forks import use_tensorstore
from treaty.runtime._storage.clouds import FAILURES, failure, is_of_storage
from treaty.runtime._storage.paths import for_tensorstore
from treaty.runtime.formats.orbax.find import OCDBT

_NODES: Final = 10**5  # of one database; more are taken for a circle


def missing_file(item: Path) -> str | None:
    """The name of a file that is not there, or is too short, if there is one."""
    if not (item / OCDBT).is_file():
        return None
    use_tensorstore()
    kvstore = ts.KvStore.open({"driver": "file", "path": for_tensorstore(item)}).result()
    versions = _dump(kvstore, None, item)["versions"]
    pending = [versions[-1]["root"].get("location")] if versions else []
    ends: dict[str, int] = {}
    for _ in range(_NODES):
        location = pending.pop() if pending else None
        if location is None:
            break
        name, end = _place(location)
        if not _holds(item / name, end):
            return name
        for entry in _dump(kvstore, location, item)["entries"]:
            pending += [entry["location"]] if "location" in entry else []
            if "indirect_value" in entry:
                name, end = _place(entry["indirect_value"])
                ends[name] = max(end, ends.get(name, 0))
    return next((name for name, end in ends.items() if not _holds(item / name, end)), None)


def _dump(kvstore: Any, location: str | None, item: Path) -> Any:
    try:
        return ts.ocdbt.dump(kvstore, location).result()
    except FAILURES as error:
        if is_of_storage(error):
            raise failure(f"read {item}", error) from None
        raise CorruptCheckpointError(f"expected a database of OCDBT, got {error} in {item}") from None


def _place(location: str) -> tuple[str, int]:
    """`value:ocdbt.process_0/:d/0ba2:400:262` -> the file, and where the value ends in it."""
    if location.count(":") != 4:
        raise CorruptCheckpointError(f"expected a place in a file, got {location[:80]!r} in a database of OCDBT")
    _, above, name, start, size = location.split(":")
    return unquote(above) + unquote(name), int(start) + int(size)


def _holds(file: Path, end: int) -> bool:
    try:
        return os.stat(file).st_size >= end
    except OSError:
        return False
