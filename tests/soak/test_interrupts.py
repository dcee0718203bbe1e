"""A short campaign of interrupts; `python -m tests.soak.interrupts` runs a long one."""

import subprocess
import sys
from pathlib import Path

from tests.soak.interrupts import HANG


def test_interrupted_saves_and_restores_leave_nothing_behind_and_lose_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak.interrupts", "--count", "60", "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=10 * HANG,
    )
    assert done.returncode == 0, done.stderr
    assert "60 interrupted" in done.stdout
