"""Who may read a file that takes the place of another: whoever might before, and nobody else."""

import os
import stat
from contextlib import suppress
from typing import Final

_ACL: Final = "system.posix_acl_access"
_LABEL: Final = "security.selinux"
_GROUP, _OTHERS = stat.S_IRWXG, stat.S_IRWXO


def keep_permissions(old: str | os.PathLike[str], new: int | str | os.PathLike[str]) -> None:
    """Give a new file or directory the mode, owner, group, ACL and extended attributes of one that is there.

    What the system does not allow is left out, and what depends on it is taken away. Nothing shall have been written to
    the new one yet, and nobody else may open it.
    """
    found = os.stat(old)
    mode = stat.S_IMODE(found.st_mode) & (0o3777 if stat.S_ISDIR(found.st_mode) else 0o777)
    if not _keep_group(found, new):
        both = (mode >> 3) & mode & _OTHERS  # the new group may be of people who were others, and the other way round
        os.chmod(new, mode & ~(_GROUP | _OTHERS) | both << 3 | both)
    elif not _keep_acl(old, new):
        os.chmod(new, mode & ~_GROUP)  # with an ACL these bits are the most that anyone has, not the group's
    else:
        os.chmod(new, mode)
    _keep_attributes(old, new)


def _keep_group(found: os.stat_result, new: int | str | os.PathLike[str]) -> bool:
    made = os.stat(new)
    if made.st_uid != found.st_uid:
        with suppress(OSError):  # only root may give a file away
            os.chown(new, found.st_uid, -1)
    if made.st_gid != found.st_gid:
        try:
            os.chown(new, -1, found.st_gid)
        except OSError:
            return False
    return True


def _keep_acl(old: str | os.PathLike[str], new: int | str | os.PathLike[str]) -> bool:
    """Whether the new one has the ACL of the old one, or none if that has none; one may come from the directory."""
    if not hasattr(os, "getxattr"):
        return True
    with suppress(OSError):
        os.removexattr(new, _ACL)
    try:
        acl = os.getxattr(old, _ACL)
    except OSError:
        return True
    try:
        os.setxattr(new, _ACL, acl)
    except OSError:
        return False
    return True


def _keep_attributes(old: str | os.PathLike[str], new: int | str | os.PathLike[str]) -> None:
    """Those of users, and the label; others, such as signatures, are about the contents."""
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(old):
                if name.startswith("user.") or name == _LABEL:
                    with suppress(OSError):
                        os.setxattr(new, name, os.getxattr(old, name))
