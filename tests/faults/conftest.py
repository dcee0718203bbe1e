from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import images, ptrace
from tests.faults.images import Image
from tests.faults.saver import Saver


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
    with images.image(tmp_path, request.param) as one:
        yield one
