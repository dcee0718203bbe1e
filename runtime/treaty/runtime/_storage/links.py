"""Files that are there already, under a second name: by a hard link, or by a copy that shares its blocks.

Nothing here raises where a file system cannot do that: then the caller writes what it wanted to link.
"""

import fcntl
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

_ACL: Final = "system.posix_acl_access"
_CLONE: Final = 0x40049409  # FICLONE of Linux

_Permissions: TypeAlias = tuple[int, int, int, bytes]


class Linker:
    """Links files into one directory and those below it.

    A link has the owner and the permissions of the file that it leads to. So only what has those of a file that is
    made here now is linked: nobody may change it who could not change a new one, and whoever may read that may read it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._usual = _usual_permissions(folder)
        self._can_clone = True

    def link(self, source: Path, name: str, size: int, written: int) -> Literal["link", "clone"] | None:
        """Link or clone `source` as `name`, if it still has `size` bytes and was not modified after `written` (ns); None if
        it cannot be done.
        """
        target = self._folder / name
        with suppress(OSError):  # removed meanwhile; another file system; as many links as there may be; not allowed
            if self._linked(source, target, size, written):
                return "link"
        return "clone" if self._cloned(source, target, size, written) else None

    def _linked(self, source: Path, target: Path, size: int, written: int) -> bool:
        if not _is_as_written(os.lstat(source), size, written) or _permissions(source) != self._usual:
            return False
        try:
            os.link(source, target, follow_symlinks=False)
        except FileNotFoundError:
            target.parent.mkdir(exist_ok=True)
            os.link(source, target, follow_symlinks=False)
        with suppress(OSError):
            if _is_as_written(os.lstat(target), size, written):
                return True
        target.unlink()  # another file has taken the name of the first meanwhile, or this one cannot be looked at
        return False

    def _cloned(self, source: Path, target: Path, size: int, written: int) -> bool:
        if not self._can_clone:
            return False
        with suppress(OSError), open(source, "rb", opener=_no_link, buffering=0) as old:
            if not _is_as_written(os.fstat(old.fileno()), size, written):
                return False
            target.parent.mkdir(exist_ok=True)
            with open(target, "xb", buffering=0) as new:
                try:
                    fcntl.ioctl(new, _CLONE, old.fileno())
                    return True
                except OSError:
                    self._can_clone = False
                    target.unlink()
        return False


def _usual_permissions(folder: Path) -> "_Permissions | None":
    """Those of a file that is made here: they depend on the umask, on the directory, and on who this is."""
    probe = folder / f"probe-{secrets.randbelow(10**9)}.msgpack"  # a name of ours, should a save be killed now
    try:
        probe.touch(exist_ok=False)
        return _permissions(probe)
    except OSError:
        return None
    finally:
        probe.unlink(missing_ok=True)  # if that fails so must the save: a file would be there that is not its own


def _is_as_written(found: os.stat_result, size: int, written: int) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_size == size and found.st_mtime_ns <= written


def _permissions(path: Path) -> "_Permissions":
    found = os.lstat(path)
    acl = b""
    if hasattr(os, "getxattr"):
        with suppress(OSError):
            acl = os.getxattr(path, _ACL, follow_symlinks=False)
    return found.st_uid, found.st_gid, found.st_mode, acl


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)
