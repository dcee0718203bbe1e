"""The resume example: killed at random moments, resumed on other device counts, and the same bits in the end."""

import os
import re
import subprocess
import sys
from pathlib import Path

from examples.resume.train import EVERY

ROOT = Path(__file__).parents[2]


def test_a_run_that_is_killed_and_resumed_on_other_devices_ends_with_the_same_bits() -> None:
    env = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    path = os.pathsep.join([str(ROOT), *sys.path])
    command = [sys.executable, "-m", "examples.resume.demo", "7"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**env, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    begun = re.findall(r"^begin at step (\d+), devices: (\d+)$", done.stdout, re.MULTILINE)
    assert [devices for _, devices in begun] == ["4", "2", "1", "8"]
    steps = [int(step) for step, _ in begun]
    assert steps[0] == 0
    assert steps == sorted(steps)  # how far each came depends on the moment it was killed
    assert not any(step % EVERY for step in steps)
    assert done.stdout.count("SIGKILL") == 3
    assert "step 24 and step 24: 37 of 37 arrays have the same bits" in done.stdout
