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


def test_files_are_compared_between_both_modules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "some_test.py").write_text(
        "from flax import serialization, struct\n"
        "def test_flax_only():\n    assert serialization.__name__ == 'flax.serialization'\n"
        "def test_neither():\n    assert False\n"
        "def test_both():\n"
        "    point = struct.dataclass(type('Point', (), {'__annotations__': {'x': int}}))(x=1)\n"
        "    assert serialization.to_state_dict([point]) == {'0': {'x': 1}}\n"
    )
    assert flax_suite.compare(tmp_path, ["some"]) == ["tests.some_test::test_flax_only"]
    assert (
        "some                              3 tests, 1 fail with Flax's module, 2 with ours" in capsys.readouterr().out
    )
