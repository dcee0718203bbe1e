"""One run of mypy --strict over what was written for each framework, and the code generated from it; and of ruff."""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

from tests.generator.scaffold.scaffolding import EXPECTED
from treaty.cli import main

CONFIG = "[mypy]\nstrict = true\nexplicit_package_bases = true\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scaffolded")
    for path in EXPECTED.glob("*.py"):
        shutil.copy(path, folder)
    names = sorted(path.stem for path in EXPECTED.glob("*.py"))
    with contextlib.chdir(folder):
        main(["generate", *names], standalone_mode=False)
    (folder / "plain.ini").write_text(CONFIG)
    return folder


def test_mypy_finds_nothing(project: Path, pytestconfig: pytest.Config) -> None:
    assert pytestconfig.cache is not None
    cache = pytestconfig.cache.mkdir("mypy-plain")  # that of tests/typing, which has JAX in it
    with contextlib.chdir(project):
        names = sorted(path.name for path in project.glob("*.py"))
        output, crash, _ = api.run(["--config-file=plain.ini", f"--cache-dir={cache}", *names])
    assert (output, crash) == (f"Success: no issues found in {len(names)} source files\n", "")


def test_ruff_would_change_nothing(project: Path) -> None:
    ruff = [sys.executable, "-m", "ruff"]
    names = sorted(path.name for path in EXPECTED.glob("*.py"))
    only = "--select=E,F,I,W,B,UP,C4,SIM,PIE"
    ignored = "--ignore=F722,F821,UP037,E501"  # as docs/static-checking.md has it for shape annotations
    for command in (["format", "--line-length=120", "--check"], ["check", "--line-length=120", only, ignored]):
        done = subprocess.run(
            [*ruff, *command, "--isolated", *names], cwd=project, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
