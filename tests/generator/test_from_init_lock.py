"""`treaty lock` and `treaty check` of a project whose optimizer states are what init makes: a swapped optimizer is found before a restore."""

import os
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests import forked
from treaty.generator import commands

STATE = """\
from typing import Annotated, Any

import optax
from jax import Array
from jaxtyping import Float32, Int32
from treaty.schema import Dims, FromInit, state
from dep import optim


@state
class Params:
    kernel: Float32[Array, "d_in d_out"]


def make_optimizer() -> Any:
    return optax.adamw(1e-3)


@state
class Train:
    params: Annotated[Params, Dims(...)]
    opt: Annotated[Any, FromInit(make_optimizer, of="params")]
    other: Annotated[Any, FromInit(optim.make, of="params")]
"""
DEPENDENCY = """\
from typing import Any, NamedTuple


class Momentum(NamedTuple):
    trace: Any


class Optimizer:
    def init(self, params: Any) -> Any:
        return Momentum(params)


def make() -> Any:
    return Optimizer()
"""
ADAMW = "optax.adamw(1e-3)"


class Project:
    def __init__(self, root: Path) -> None:
        self.root, self.state, self.dependency = root, root / "state.py", root.parent / "site" / "dep" / "optim.py"

    def write(self) -> "Project":
        for file, text in {self.state: STATE, self.dependency: DEPENDENCY}.items():
            file.parent.mkdir(parents=True)
            file.write_text(text)
        (self.root / "pyproject.toml").write_text('[tool.treaty]\nmodules = ["state"]\n')
        return self

    def change(self, old: str, new: str, file: Path | None = None) -> None:
        file = file or self.state
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    def treaty(self, name: str, *arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(getattr(commands, name), arguments)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    def findings(self) -> list[str]:
        _, printed = self.treaty("check")
        found = (re.match(r"\S+: ((SILENT|LOAD|PROCESS|DRIFT)-\S+: \S+: .*)", line) for line in printed.splitlines())
        return [line[1] for line in found if line is not None]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("released")
    project = Project(root / "project").write()
    env = {**os.environ, "PYTHONPATH": str(root / "site")}
    forked.run("treaty", "lock", "-m", "first", cwd=project.root, env=env).check_returncode()
    return root


@pytest.fixture
def project(released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    shutil.copytree(released, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "copy" / "site"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.chdir(tmp_path / "copy" / "project")
    return Project(tmp_path / "copy" / "project")


def test_what_is_as_locked_is_fine(project: Project) -> None:
    assert project.treaty("check") == (0, "1 generated module fresh\n")


@pytest.mark.parametrize(
    ("optimizer", "finding"),
    [
        ("optax.adamw(3e-4, b1=0.8)", ""),  # another rate is the same state
        (
            "optax.chain(optax.scale_by_adam(), optax.trace(0.9))",
            "LOAD-tuple: Train.opt: expected 2 items, got 3 (breaks revision 1); write a migration that says which of them are which",
        ),
        ("optax.chain(optax.trace(0.9), optax.identity(), optax.identity())", "SILENT-class: Train.opt[0]: "),
        (
            "optax.adamw(1e-3, mu_dtype='bfloat16')",
            "LOAD-dtype: Train.opt[0].mu.kernel: expected bfloat16[d_in, d_out], got float32",
        ),
    ],
)
def test_another_optimizer_is_a_finding_where_its_state_is_another(
    project: Project, optimizer: str, finding: str
) -> None:
    project.change(ADAMW, optimizer)

    found = project.findings()

    if not finding:
        assert found == []
        return
    assert found[0].startswith(finding), found
    assert found[-1].startswith("PROCESS-differs: Train: its declaration differs from revision 1 (")


def test_a_class_of_the_optimizers_library_that_changed_is_drift(project: Project) -> None:
    project.change("    trace: Any\n", "    trace: Any\n    nu: Any\n", project.dependency)
    project.change("Momentum(params)", "Momentum(params, params)", project.dependency)

    load, drift = project.findings()

    assert load.startswith("LOAD-added: Train.other.nu: expected state:Params(d_in=d_in, d_out=d_out), got nothing"), (
        load
    )
    assert drift.startswith(
        "DRIFT-changed: Train.other: dep.optim:Momentum, of another package, changed (nu: added, Params"
    ), drift


def test_another_optimizer_is_locked_with_a_migration_or_given_up(project: Project) -> None:
    project.change(ADAMW, "optax.chain(optax.scale_by_adam(), optax.trace(0.9))")
    code, printed = project.treaty("lock")
    assert code == 2
    assert "LOAD-tuple: Train.opt: " in printed

    code, printed = project.treaty("lock", "--orphan", "Train:1", "--why", "restarted")

    assert code == 0, printed
    assert project.treaty("check") == (0, "1 generated module fresh\n")


def test_a_generic_class_says_where_the_field_belongs(project: Project) -> None:
    project.change("Annotated, Any", "Annotated, Any, Generic, TypeVar")
    project.change(
        "\n\n@state\nclass Train:", '\n\nP = TypeVar("P", bound=Params)\n\n\n@state\nclass Train(Generic[P]):'
    )
    project.change("params: Annotated[Params, Dims(...)]", "params: P")
    said = "FromInit(make_optimizer, of='params'): params is of a type variable here, and init makes another state of each type; "
    written = "write it in a class for each: class OwnTrain(Train[Params]) with opt: Annotated[..., FromInit(make_optimizer, of='params')]"

    code, printed = project.treaty("lock")

    assert code == 2
    assert f"{said}leave this field out of Train, and {written}" in printed
    text = project.state.read_text()
    start = text.index("    opt:")
    project.state.write_text(f"{text[:start]}\n\n@state\nclass OwnTrain(Train[Params]):\n{text[start:]}")
    code, printed = project.treaty("lock", "--orphan", "Train:1", "--why", "moved")
    assert code == 0, printed
