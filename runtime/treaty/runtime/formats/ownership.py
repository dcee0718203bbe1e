"""Which files in a checkpoint directory are the checkpoint's own: whoever replaces or removes it must take nothing else."""

import os
from collections.abc import Iterator
from pathlib import Path

from treaty.runtime._storage.paths import is_stray
from treaty.runtime.formats.shared.format import Owns
from treaty.runtime.formats.table import FORMATS
from treaty.schema import TreatyError


def strangers(path: Path) -> list[str]:
    """The files below a directory that no checkpoint in it accounts for; all of them if there is no checkpoint."""
    owners = _owners(path)
    return sorted(name for name, is_plain in _files(path) if not is_plain or not any(owns(name) for owns in owners))


def others_shown(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _owners(path: Path) -> list[Owns]:
    try:
        for format in FORMATS.values():
            if format.is_at(str(path)):
                return format.owns(path)
    except (TreatyError, KeyError, TypeError, AttributeError):
        pass  # of damaged metadata it is not known what it named
    return []


def _files(path: Path) -> Iterator[tuple[str, bool]]:
    """Every file by its name below `path`, and whether it is a plain one: links are made by no format."""
    pending = [(path, "")]
    while pending:
        folder, prefix = pending.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append((Path(entry.path), f"{prefix}{entry.name}/"))
                elif not is_stray(entry.name):
                    yield prefix + entry.name, entry.is_file(follow_symlinks=False)
