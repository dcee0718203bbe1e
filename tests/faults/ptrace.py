"""Stop a process at one of its system calls that change files, counted over all of its threads.

strace counts the calls of each thread by itself; a crash has one moment, so this counts those of the whole process.
"""

import ctypes
import os
import platform
import signal
import struct
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from attrs import frozen

MACHINE: Final = "x86_64"  # the numbers below are its

COMMITTED: Final = -1  # as the number of a call: the one after the rename of a manifest

_CONT_SYSCALL, _SEIZE, _INTERRUPT, _GET_SYSCALL_INFO = 24, 0x4206, 0x4207, 0x420E
_SYSGOOD, _CLONE, _EXITKILL = 0x1, 0x8, 0x100000
_EVENT_STOP: Final = 128
_ENTRY: Final = 1
_WALL: Final = 0x40000000
_CREATE: Final = os.O_CREAT

# number -> name, and which arguments are paths or descriptors
_CALLS: Final = {
    1: ("write", ("fd",)),
    18: ("pwrite64", ("fd",)),
    20: ("writev", ("fd",)),
    74: ("fsync", ("fd",)),
    75: ("fdatasync", ("fd",)),
    77: ("ftruncate", ("fd",)),
    82: ("rename", ("path", "path")),
    83: ("mkdir", ("path",)),
    84: ("rmdir", ("path",)),
    86: ("link", ("path", "path")),
    87: ("unlink", ("path",)),
    257: ("openat", ("at", "path")),
    258: ("mkdirat", ("at", "path")),
    263: ("unlinkat", ("at", "path")),
    264: ("renameat", ("at", "path", "at", "path")),
    265: ("linkat", ("at", "path", "at", "path")),
    285: ("fallocate", ("fd",)),
    316: ("renameat2", ("at", "path", "at", "path")),
}


@frozen
class Call:
    """A system call that changes, or makes lasting, what lies under the watched folder."""

    name: str
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.paths)})"


def missing() -> str | None:
    """Why this cannot run here, if it cannot."""
    if platform.system() != "Linux" or platform.machine() != MACHINE:
        return f"Linux on {MACHINE}"
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            _ptrace(_SEIZE, process.pid)
        except OSError as error:
            return f"permission to trace processes: {error}"
        finally:
            process.kill()
    return None


def trace(pid: int, folder: str, go: Callable[[], None], stop: Callable[[Call, int], bool]) -> list[Call]:
    """Follow a process until it ends, or until `stop` says so before a call is made: then it is killed.

    `go` lets the process run once all of its threads are followed. The caller is its parent, and has no other children.
    """
    waiting = set(map(int, os.listdir(f"/proc/{pid}/task")))
    for task in waiting:
        _ptrace(_SEIZE, task, 0, _SYSGOOD | _CLONE | _EXITKILL)
        _ptrace(_INTERRUPT, task)
    calls: list[Call] = []
    while True:
        task, status = os.waitpid(-1, _WALL)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            if task == pid:
                return calls
            continue
        at_call = os.WSTOPSIG(status) == signal.SIGTRAP | 0x80
        with suppress(ProcessLookupError):  # another thread ended the process meanwhile
            call = _call(task, folder) if at_call else None
            if call is not None:
                calls.append(call)
                if stop(call, len(calls)):
                    os.kill(pid, signal.SIGKILL)
                    _reap(pid)
                    return calls
            _ptrace(_CONT_SYSCALL, task, 0, 0 if at_call or status >> 16 else os.WSTOPSIG(status))
        if task in waiting:
            waiting.discard(task)
            if not waiting:
                go()


def _reap(pid: int) -> None:
    while True:
        task, status = os.waitpid(-1, _WALL)
        if task == pid and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
            return


def _call(task: int, folder: str) -> Call | None:
    info = ctypes.create_string_buffer(88)
    _ptrace(_GET_SYSCALL_INFO, task, len(info), ctypes.addressof(info))
    if info.raw[0] != _ENTRY:
        return None
    number, *arguments = struct.unpack_from("<7Q", info.raw, 24)
    if number not in _CALLS:
        return None
    name, kinds = _CALLS[number]
    if name == "openat":
        if not arguments[2] & _CREATE:
            return None
        name = "create"
    paths = tuple(_paths(task, kinds, arguments))
    return Call(name, paths) if any(path == folder or path.startswith(f"{folder}/") for path in paths) else None


def _paths(task: int, kinds: tuple[str, ...], arguments: list[int]) -> "list[str]":
    found, base = [], ""
    for kind, value in zip(kinds, arguments, strict=False):
        if kind == "fd":
            found.append(_link(task, f"fd/{value}"))
        elif kind == "at":
            at = ctypes.c_int32(value & 0xFFFFFFFF).value
            base = _link(task, "cwd" if at == -100 else f"fd/{at}")
        else:
            found.append(os.path.join(base, _text(task, value)))
    return found


def _link(task: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{task}/{name}")
    except OSError:
        return ""


def _text(task: int, address: int) -> str:
    with open(f"/proc/{task}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(4096).split(b"\0", 1)[0].decode()


def _ptrace(request: int, task: int, address: int = 0, data: int = 0) -> None:
    arguments = [ctypes.c_long(request), ctypes.c_long(task), ctypes.c_void_p(address), ctypes.c_void_p(data)]
    if _LIBC.ptrace(*arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"ptrace: {os.strerror(code)}")


_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.restype = ctypes.c_long
