"""Flax's own tests pass with one import line changed."""

import os
from pathlib import Path

import pytest

from tests.compat import flax_suite


def test_flaxs_own_tests_pass(tmp_path: Path) -> None:
    given = os.environ.get(flax_suite.ENV)
    if not given:
        pytest.skip(f"Flax's tests are not part of this repository: make compat, or set {flax_suite.ENV} to the file")
    done = flax_suite.run(Path(given).read_text(), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_the_runner_sees_a_failure(tmp_path: Path) -> None:
    text = flax_suite.IMPORT + "def test_wrong():\n    assert serialization.to_bytes(1) == b'no'\n"
    assert "1 failed" in flax_suite.run(text, tmp_path).stdout
    with pytest.raises(ValueError, match="expected one line"):
        flax_suite.run("import flax", tmp_path)
