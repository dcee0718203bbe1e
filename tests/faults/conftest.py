import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.faults import images, ptrace
from tests.faults.images import Image
from tests.faults.saver import Saver

_T = TypeVar("_T")


@pytest.fixture(scope="session")
def saver() -> Iterator[Saver]:
    reason = ptrace.missing()
    if reason is not None:
        pytest.skip(f"needs {reason}")
    with Saver() as one:
        yield one


@pytest.fixture(params=["ext4", "xfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Image]:
    """A file system whose power can be cut."""
    yield from _disk(tmp_path, request.param)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a few checkpoints."""
    with ExitStack() as stack:
        yield _mounted(stack, images.tmpfs(tmp_path / "tmpfs", 64 * os.sysconf("SC_PAGESIZE")))


@pytest.fixture(params=["tmpfs", "ext4"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system that is soon filled up; of ext4 directories take room, too."""
    if request.param == "ext4":
        disk: Image = request.getfixturevalue("ext4")
        yield disk.mounted
    else:
        yield request.getfixturevalue("full_disk")


@pytest.fixture
def ext4(tmp_path: Path) -> Iterator[Image]:
    yield from _disk(tmp_path, "ext4")


@pytest.fixture
def ext2(tmp_path: Path) -> Iterator[Image]:
    """A file system in which a file has 32,000 names at most; on ext4 it is twice as many."""
    yield from _disk(tmp_path, "ext2")


@pytest.fixture
def exfat(tmp_path: Path) -> Iterator[Image]:
    """A file system without hard links, owners and permissions."""
    yield from _disk(tmp_path, "exfat")


@pytest.fixture
def read_only() -> Callable[[Path], AbstractContextManager[None]]:
    if os.geteuid() != 0:
        pytest.skip("needs root")

    @contextmanager
    def without_writing(folder: Path) -> Iterator[None]:
        with ExitStack() as stack:
            yield _mounted(stack, images.read_only(folder))

    return without_writing


def _disk(folder: Path, kind: str) -> Iterator[Image]:
    reason = images.missing(kind)
    if reason is not None:
        pytest.skip(f"needs {reason}")
    with ExitStack() as stack:
        yield _mounted(stack, images.image(folder, kind))


def _mounted(stack: ExitStack, one: AbstractContextManager[_T]) -> _T:
    try:
        return stack.enter_context(one)
    except images.CannotMount as error:
        pytest.skip(f"needs permission to mount: {error}")
