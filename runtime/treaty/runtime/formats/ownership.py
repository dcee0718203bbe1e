"""Which files in a checkpoint directory are the checkpoint's own: whoever replaces or removes it must take nothing else."""

from pathlib import Path

from treaty.runtime._storage.directories import files_below
from treaty.runtime.formats.shared.format import Owns
from treaty.runtime.formats.table import FORMATS
from treaty.schema import TreatyError


def strangers(path: Path) -> list[str]:
    """The files below a directory that no checkpoint in it accounts for, and links, which no format makes; all if there is none."""
    owners = _owners(path)
    files = ((name, entry.is_file(follow_symlinks=False)) for name, entry in files_below(path))
    return sorted(name for name, is_plain in files if not is_plain or not any(owns(name) for owns in owners))


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
