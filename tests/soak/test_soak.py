"""A few seconds of the campaign; `make soak MINUTES=60` runs it for an hour."""

import re
import subprocess
import sys

from tests.soak.__main__ import HANG


def test_nothing_is_lost_mixed_or_hangs_while_training_loops_are_killed_and_interrupted() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--minutes", "0.1", "--seed", "1"],
        capture_output=True,
        text=True,
        timeout=10 * HANG,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b[1-9]\d* save, .*\b[1-9]\d* restore, .* 0 faults$", done.stdout.strip())
