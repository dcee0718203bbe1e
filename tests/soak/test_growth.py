"""A short form of the many saves of one process; `make soak` makes 2,000."""

import subprocess
import sys

import pytest

from tests.soak.__main__ import HANG
from tests.soak.growth import ROOM, Usage, grown


def test_saves_of_a_manager_leave_no_memory_no_threads_and_no_file_descriptors() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak.growth", "--saves", "40"],
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "after 40 more: " in done.stdout


@pytest.mark.parametrize("after", [Usage(1 + ROOM + 1, 2, 3), Usage(1, 3, 3), Usage(1, 2, 4)])
def test_what_grows_is_seen(after: Usage) -> None:
    assert grown(Usage(1, 2, 3), after)
    assert not grown(Usage(1, 2, 3), Usage(1 + ROOM, 2, 3))
