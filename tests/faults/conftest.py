import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
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
    reason = images.missing(request.param)
    if reason is not None:
        pytest.skip(f"needs {reason}")
    with ExitStack() as stack:
        yield _mounted(stack, images.image(tmp_path, request.param))


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a few checkpoints."""
    with ExitStack() as stack:
        yield _mounted(stack, images.tmpfs(tmp_path / "tmpfs", 64 * os.sysconf("SC_PAGESIZE")))


def _mounted(stack: ExitStack, one: AbstractContextManager[_T]) -> _T:
    try:
        return stack.enter_context(one)
    except images.CannotMount as error:
        pytest.skip(f"needs permission to mount: {error}")
