"""Golden modules: each case's schema.py generates its expected.py to the byte, and expected.py is good Python.

`UPDATE_GOLDENS=1 pytest tests/generator/test_cases.py` writes them anew; read the diff before committing it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from treaty.generator import generate
from treaty.generator._project import Project

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CASES = sorted(path.parent.name for path in HERE.glob("cases/*/schema.py"))


@pytest.mark.parametrize("case", CASES)
def test_the_whole_file_is_as_expected(case: str) -> None:
    ((path, text),) = generate(f"tests.generator.cases.{case}.schema", Project(ROOT)).items()
    assert path == f"tests/generator/cases/{case}/expected.py"
    expected = ROOT / path
    if os.environ.get("UPDATE_GOLDENS"):
        expected.write_text(text)
    assert text == expected.read_text()


@pytest.mark.parametrize("width", [79, 88, 120])
def test_a_formatter_of_any_width_leaves_generated_code_alone(width: int, tmp_path: Path) -> None:
    for case in CASES:
        (tmp_path / f"{case}.py").write_text((HERE / "cases" / case / "expected.py").read_text())
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", f"--line-length={width}", "--diff", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert formatted.returncode == 0, formatted.stdout


def test_generated_code_has_no_any_no_ignores_and_nothing_of_this_machine() -> None:
    for case in CASES:
        text = (HERE / "cases" / case / "expected.py").read_text()
        assert "Any" not in text.replace("ANYTHING", "")
        assert "type: ignore" not in text
        assert str(ROOT) not in text
        assert "noqa" not in text
