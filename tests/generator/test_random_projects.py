"""What `treaty generate` takes works: it imports, passes strict mypy, round-trips, and refuses what does not belong.

`TREATY_MODULES=200 TREATY_SEED=7 pytest tests/generator/test_random_projects.py` takes more of them, and others.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.generator.random_schemas import modules
from tests.generator.test_any_name import strict_errors
from treaty.generator._generate import text_of
from treaty.generator._modules import Module
from treaty.schema.ir_json import class_from_data

COUNT = int(os.environ.get("TREATY_MODULES", "12"))
SEED = int(os.environ.get("TREATY_SEED", "1"))


def test_whatever_is_accepted_works(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    made = modules(SEED, COUNT)
    for one in made:
        (tmp_path / f"{one.name}.py").write_text(one.text)
    names = [one.name for one in made]
    command = [sys.executable, "-m", "treaty.generator._worker", "result.json", *names]
    subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    answers = json.loads((tmp_path / "result.json").read_text())
    accepted: list[str] = []
    for name, data in answers.items():
        for problem in data.get("problems", ()):
            assert re.fullmatch(r"schema\d+\.py:\d+: [\w.]+: \S.*", problem), problem
        if "problems" in data:
            continue
        classes = tuple(map(class_from_data, data["classes"]))
        module = Module(name, data["file"], tuple(data["roots"]), classes, data["generated"])
        if set(module.uses()) <= set(accepted):  # the command refuses to generate the others
            accepted.append(name)
            (tmp_path / f"{name}_treaty.py").write_text(text_of(module), encoding="utf-8")
    assert len(accepted) > COUNT // 4
    command = [sys.executable, "-m", "tests.generator.use_schemas", str(SEED), *accepted]
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    used = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert used.stdout.splitlines()[-1:] == ["done"], used.stdout[-3000:] + used.stderr[-3000:]
    assert strict_errors(tmp_path, pytestconfig) == []
