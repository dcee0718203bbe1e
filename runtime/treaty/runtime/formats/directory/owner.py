"""Who makes a data directory. Its name says it, so that the next save knows whether the one that made it is still there.

`data-` and 16 digits: six for the machine since its last start, six for the process, four by chance.
"""

import os
import secrets
from functools import cache
from pathlib import Path
from typing import Final

from treaty.runtime.formats.directory.checksum import checksum
from treaty.runtime.formats.directory.manifest import DATA

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES: Final = "/proc/self/ns/pid"  # a number means the same process only within one of these

_live: set[str] = set()  # data that saves of this process are writing


def take_name() -> str:
    """A name for the data of a save of this process; to be released when the save is over."""
    name = f"data-{_machine()}{os.getpid() & 0xFFFFFF:06x}{secrets.token_hex(2)}"
    _live.add(name)
    return name


def release_name(name: str) -> None:
    _live.discard(name)


def is_dead(name: str, since: int | None = None) -> bool:
    """Whether it is certain that no save will commit this data any more. `since` is when its process started, if that is known: the
    number may be another one's by now."""
    if not is_here(name):
        return False
    process = int(name.removeprefix("data-")[6:12], 16)
    if process == os.getpid() & 0xFFFFFF:
        return name not in _live
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return since is not None and started(process) not in (None, since)


def started(process: int) -> int | None:
    """When a process began, in ticks since the start of the machine; None where the system does not tell."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def is_here(name: str) -> bool:
    """Whether its process is, or was, one of this machine."""
    return name.removeprefix("data-")[:6] == _machine()


def is_name(text: str) -> bool:
    return DATA.match(text) is not None


@cache
def _machine() -> str:
    try:
        known = _BOOT.read_text() + os.readlink(_PROCESSES)
    except OSError:  # not Linux
        import platform
        import uuid

        known = f"{platform.node()} {uuid.getnode()}"
    return checksum(known.encode())[:6]
