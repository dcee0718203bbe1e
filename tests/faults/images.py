"""File systems of our own in image files, on loop devices: to fill up, or to cut the power of."""

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SHUTDOWN: Final = 0x8004587D  # FS_IOC_SHUTDOWN
_NO_LOG_FLUSH: Final = 2
_SIZES: Final = {"ext2": 16, "ext4": 16, "xfs": 300, "exfat": 16}  # MiB; the smallest that mkfs.xfs makes
_OPTIONS: Final = {"ext2": ["-q", "-F"], "ext4": ["-q", "-F"], "xfs": ["-q", "-f"], "exfat": []}
_TYPES: Final = {"exfat": "exfat-fuse"}  # for mount; not every kernel has its own


def missing(kind: str) -> str | None:
    """What is not here that a file system of this kind needs."""
    if os.geteuid() != 0:
        return "root"
    helper = [f"mount.{_TYPES[kind]}"] if kind in _TYPES else []
    for tool in (f"mkfs.{kind}", "mount", "umount", *helper):
        if shutil.which(tool) is None:
            return tool
    return None if Path("/dev/loop-control").exists() else "loop devices"


class CannotMount(Exception):
    pass


class Image:
    """A mounted file system whose power can be cut."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind = kind
        self.file = folder / f"{kind}.img"
        self.mounted = folder / kind
        self.mounted.mkdir()
        with open(self.file, "wb") as file:
            file.truncate(_SIZES[kind] << 20)
        _run(f"mkfs.{kind}", *_OPTIONS[kind], str(self.file))

    def mount(self) -> None:
        _run("mount", "-o", "loop", "-t", _TYPES.get(self.kind, self.kind), str(self.file), str(self.mounted))

    def power_on_again(self) -> None:
        """After `cut_power`: what the disk had is all there is."""
        _run("umount", str(self.mounted))
        self.mount()


@contextmanager
def image(folder: Path, kind: str) -> Iterator[Image]:
    one = Image(folder, kind)
    one.mount()
    try:
        yield one
    finally:
        _detach(one.mounted)


@contextmanager
def tmpfs(folder: Path, size: int) -> Iterator[Path]:
    """Memory of `size` bytes, as a file system that is soon full."""
    folder.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        _detach(folder)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nobody may write here who comes by this path, as on a disk with errors that its system goes on with so."""
    _run("mount", "--bind", str(folder), str(folder))
    try:
        _run("mount", "-o", "remount,bind,ro", str(folder))
        yield
    finally:
        _detach(folder)


def cut_power(folder: str | os.PathLike[str]) -> None:
    """From now on nothing reaches the disk under this mounted file system; its log is not flushed either."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
    finally:
        os.close(descriptor)


def _detach(mounted: Path) -> None:
    _run("umount", "--lazy", str(mounted))  # a test that fails may hold a file that is mapped


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        kind = CannotMount if command[0] == "mount" else RuntimeError
        raise kind(f"{' '.join(command)}: {done.stderr.strip().splitlines()[0]}")
