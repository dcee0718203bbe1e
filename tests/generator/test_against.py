"""`treaty check --against`: a commit, another lock or a checkpoint that must not be lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BEFORE = """
from jax import Array
from jaxtyping import Float32
from treaty.schema import state

@state
class A:
    w: Float32[Array, "d"]
"""
SAVE = "import jax.numpy as jnp; from my import A; from treaty.runtime import save; save('old', A(w=jnp.ones(2)))"


def run(cwd: Path, *command: str) -> tuple[int, str]:
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def treaty(cwd: Path, *args: str) -> tuple[int, str]:
    return run(cwd, sys.executable, "-m", "treaty.cli", *args)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Locked and committed; then a field is renamed, the lock begins anew, and a checkpoint of the first is still there."""
    root = tmp_path_factory.mktemp("against")
    (root / "my.py").write_text(BEFORE)
    assert treaty(root, "lock", "my", "-m", "first")[0] == 0
    assert run(root, sys.executable, "-c", SAVE)[0] == 0
    (root / "kept").mkdir()
    (root / "kept" / "my.lock").write_text((root / "my_treaty.lock").read_text())
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "my.py", "my_treaty.lock"], ["commit", "-q", "-m", "first"]):
        assert run(root, *git, *command)[0] == 0
    (root / "my.py").write_text(BEFORE.replace("w:", "v:"))
    (root / "my_treaty.lock").unlink()
    (root / "my_treaty_history.py").unlink()
    assert treaty(root, "lock", "my", "-m", "forgotten")[0] == 0
    return root


def test_alone_the_new_lock_is_fine(project: Path) -> None:
    assert treaty(project, "check", "my")[0] == 0


@pytest.mark.parametrize("against", ["HEAD", "kept/my.lock", "old"])
def test_what_must_not_be_lost_is_told(project: Path, against: str) -> None:
    status, said = treaty(project, "check", "my", "--against", against)
    assert status == 1, said
    assert "'w'" in said or "rewritten" in said, said


def test_neither_a_path_nor_a_commit(project: Path) -> None:
    status, said = treaty(project, "check", "my", "--against", "nowhere")
    assert status == 2
    assert "nowhere" in said
