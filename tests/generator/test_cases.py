"""Golden modules: each case's schema.py generates its expected.py to the byte, and expected.py is good Python.

Where there is an expected.lock, expected_history.py is generated from it as well, and treaty check has nothing to say.

`UPDATE_GOLDENS=1 pytest tests/generator/test_cases.py` writes them anew; read the diff before committing it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from treaty.generator import check, generate
from treaty.generator._project import Project

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
EXPECTED = sorted(HERE.glob("cases/*/expected*.py"))
CASES = sorted(path.parent.name for path in HERE.glob("cases/*/schema.py"))


@pytest.mark.parametrize("case", CASES)
def test_the_whole_file_is_as_expected(case: str) -> None:
    outputs = generate(f"tests.generator.cases.{case}.schema", Project(ROOT))
    names = ["expected.py", *(["expected_history.py"] if case == "evolved" else [])]
    assert list(outputs) == [f"tests/generator/cases/{case}/{name}" for name in names]
    for path, text in outputs.items():
        if os.environ.get("UPDATE_GOLDENS"):
            (ROOT / path).write_text(text)
        assert text == (ROOT / path).read_text()


def test_what_is_locked_is_as_it_was() -> None:
    assert check("tests.generator.cases.evolved.schema", Project(ROOT)) == []


@pytest.mark.parametrize("width", [79, 88, 120])
def test_a_formatter_of_any_width_leaves_generated_code_alone(width: int, tmp_path: Path) -> None:
    for path in EXPECTED:
        (tmp_path / f"{path.parent.name}_{path.name}").write_text(path.read_text())
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", f"--line-length={width}", "--diff", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert formatted.returncode == 0, formatted.stdout


def test_generated_code_has_no_any_no_ignores_and_nothing_of_this_machine() -> None:
    for path in EXPECTED:
        text = path.read_text()
        assert "Any" not in text.replace("ANYTHING", "")
        assert "type: ignore" not in text
        assert str(ROOT) not in text
        assert "noqa" not in text
