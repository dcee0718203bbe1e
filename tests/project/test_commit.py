"""The default advice: commit the generated files, and let CI and pre-commit check them."""

import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.project.user_project import REPOSITORY, STALE, UserProject, run, snippet, snippets, succeed

# PyYAML comes with flax, and has no types.
yaml: Any = importlib.import_module("yaml")


@pytest.fixture
def project(tmp_path: Path) -> UserProject:
    """A git repository with one generated file stale, and the other missing."""
    (settings,) = (text for text in snippets("toml") if "[project]" not in text)
    project = UserProject.write(tmp_path / "project", settings, "src")
    (project.root / ".gitignore").unlink()
    (project.package / "layers_treaty.py").write_text(STALE)
    succeed("git", "init", "--quiet", cwd=project.root)
    succeed("git", "add", "--all", cwd=project.root)
    return project


def test_check_fails_and_names_the_command_that_mends_each_file(project: UserProject) -> None:
    done = run(*shlex.split(hook("treaty-check")["entry"]), cwd=project.root)

    assert done.returncode == 1
    assert "src/my_model/layers_treaty.py: stale or edited; run: treaty generate my_model.layers\n" in done.stdout
    assert "src/my_model/train_treaty.py: missing; run: treaty generate my_model.train\n" in done.stdout
    assert "+def linear_to_state_dict" in done.stdout


def test_the_hook_of_the_page_mends_the_files_and_the_check_of_the_page_then_passes(project: UserProject) -> None:
    (used,) = yaml.safe_load(snippet("yaml", "treaty-"))["repos"]
    (name,) = (item["id"] for item in used["hooks"])
    check = shlex.split(snippet("console", "treaty").removeprefix("$ "))

    succeed(*shlex.split(hook(name)["entry"]), cwd=project.root)

    # pre-commit stops the commit when a hook has changed files: this is what it looks at.
    changed = run("git", "diff", "--no-ext-diff", "--exit-code", "--name-only", cwd=project.root)
    assert (changed.returncode, changed.stdout) == (1, "src/my_model/layers_treaty.py\n")
    assert succeed(*check, cwd=project.root) == "2 generated modules fresh\n"


@pytest.mark.parametrize("name", ["treaty-generate", "treaty-check"])
def test_the_pre_commit_hooks_run_once_for_changes_that_matter(name: str) -> None:
    settings = hook(name)

    assert settings["language"] == "python"
    assert settings["pass_filenames"] is False
    paths = ["src/my_model/train.py", "my_model/train_treaty.py", "pyproject.toml", "README.md", "docs/pyproject.toml"]
    assert [path for path in paths if re.search(settings["files"], path)] == paths[:3]


def hook(name: str) -> dict[str, Any]:
    hooks = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())
    (found,) = (item for item in hooks if item["id"] == name)
    assert isinstance(found, dict)
    return found
