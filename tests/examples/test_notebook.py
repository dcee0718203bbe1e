"""The notebook of examples/ runs, and gives what is committed."""

import json
import subprocess
import sys
from pathlib import Path

from tests.examples.notebook import NOTEBOOK

ROOT = Path(__file__).parents[2]


def test_the_notebook_gives_the_outputs_that_it_has() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.examples.notebook", "--print"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == NOTEBOOK.read_text(), "run: python -m tests.examples.notebook"


def test_it_is_small_and_of_no_machine() -> None:
    text = NOTEBOOK.read_text()
    assert len(text) < 20_000
    assert not [word for word in ("/home", "/tmp", "/root", "/Users", "0x") if word in text]
    outputs = [one for cell in json.loads(text)["cells"] for one in cell.get("outputs", ())]
    assert not [one for one in outputs if one["output_type"] == "error"]
    assert "&lt;run&gt;" in text
