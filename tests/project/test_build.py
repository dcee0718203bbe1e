"""Each build backend, really run: what is in the distributions, what stays in the tree, and that the result works."""

import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.project.user_project import (
    ROUND_TRIP,
    STALE,
    UserProject,
    fail,
    snippet,
    succeed,
    virtual_environment,
)

BUILD = (sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist")
PIP = (sys.executable, "-m", "pip")
NOTHING_ELSE = ("--no-deps", "--no-build-isolation")


@pytest.fixture(params=["hatchling", "setuptools"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> UserProject:
    """hatchling with src/, setuptools without. One generated file is committed and stale, the other ignored by git."""
    backend: str = request.param
    pyproject = snippet("toml", f'requires = ["{backend}", "treaty"]')
    project = UserProject.write(tmp_path / "project", pyproject, "src" if backend == "hatchling" else "")
    (project.package / "layers_treaty.py").write_text(STALE)
    project.declare_in_package()
    return project


def test_a_wheel_has_fresh_code_and_works_where_it_is_installed(project: UserProject, tmp_path: Path) -> None:
    succeed(*BUILD, "--wheel", cwd=project.root)

    (wheel,) = (project.root / "dist").glob("*.whl")
    assert_complete(wheel)
    assert project.generated == {"layers_treaty.py": STALE}, "building a wheel must leave the tree as it is"

    target = tmp_path / "installed"
    succeed(*PIP, "install", *NOTHING_ELSE, "--target", target, wheel, cwd=tmp_path)
    printed = succeed(sys.executable, "-c", ROUND_TRIP, cwd=tmp_path / "elsewhere", PYTHONPATH=str(target))
    assert imported(printed) == [target / "my_model" / "layers_treaty.py", target / "my_model" / "train_treaty.py"]


@pytest.mark.parametrize("project", ["hatchling"], indirect=True)
def test_an_sdist_has_fresh_code_and_builds_the_same_wheel(project: UserProject) -> None:
    succeed(*BUILD, cwd=project.root)

    (wheel,) = (project.root / "dist").glob("*.whl")
    assert_complete(wheel)
    assert_sdist_is_fresh(project.root / "dist" / "my_model-1.0.tar.gz", wheel)
    assert project.generated == {"layers_treaty.py": STALE}


def test_a_lock_is_in_sdist_and_wheel_and_its_history_is_made_from_it(project: UserProject) -> None:
    (project.package / "layers_treaty.py").unlink()
    succeed(sys.executable, "-m", "treaty.cli", "lock", cwd=project.root)
    for path in project.package.glob("*_treaty*.py"):
        path.unlink()

    succeed(*BUILD, cwd=project.root)  # the wheel is built from the sdist

    (wheel,) = (project.root / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        lock = archive.read("my_model/layers_treaty.lock").decode()
        history = archive.read("my_model/layers_treaty_history.py").decode()
        assert "my_model/_treaty.lock" in archive.namelist()
    assert lock == (project.package / "layers_treaty.lock").read_text()
    assert "class LinearV1(" in history
    assert lock in history
    with tarfile.open(project.root / "dist" / "my_model-1.0.tar.gz") as archive:
        assert [name.rpartition("/")[2] for name in archive.getnames()].count("layers_treaty.lock") == 1


@pytest.mark.parametrize("project", ["setuptools"], indirect=True)
def test_pip_installs_fresh_code_from_an_sdist(project: UserProject, tmp_path: Path) -> None:
    target = tmp_path / "installed"

    succeed(*BUILD, "--sdist", cwd=project.root)
    sdist = project.root / "dist" / "my_model-1.0.tar.gz"
    succeed(*PIP, "install", *NOTHING_ELSE, "--target", target, sdist, cwd=tmp_path)

    assert "def linear_to_state_dict" in (target / "my_model" / "layers_treaty.py").read_text()
    assert "def train_state_to_state_dict" in (target / "my_model" / "train_treaty.py").read_text()
    assert project.generated == {"layers_treaty.py": STALE}


def test_an_editable_install_writes_into_the_tree(project: UserProject, tmp_path: Path) -> None:
    without_editables(project)
    python = virtual_environment(tmp_path / "venv")

    succeed(*PIP, "--python", python, "install", *NOTHING_ELSE, "--editable", project.root, cwd=tmp_path)

    printed = succeed(python, "-c", ROUND_TRIP, cwd=tmp_path / "elsewhere")
    assert imported(printed) == [project.package / "layers_treaty.py", project.package / "train_treaty.py"]
    assert "def linear_to_state_dict" in project.generated["layers_treaty.py"]


def test_a_mistake_in_a_declaration_fails_the_build_with_its_message(project: UserProject) -> None:
    project.break_schema()

    output = fail(*BUILD, "--wheel", cwd=project.root)

    assert_tells_the_mistake(output)
    assert not list((project.root / "dist").glob("*.whl"))


@pytest.mark.parametrize("project", ["setuptools"], indirect=True)
def test_a_mistake_in_a_declaration_fails_an_editable_install(project: UserProject, tmp_path: Path) -> None:
    # Not a matter of course: setuptools turns errors of a changed build_py into warnings here.
    project.break_schema()
    python = virtual_environment(tmp_path / "venv")

    output = fail(*PIP, "--python", python, "install", *NOTHING_ELSE, "--editable", project.root, cwd=tmp_path)

    assert_tells_the_mistake(output)


def assert_complete(wheel: Path) -> None:
    """All generated modules, fresh, each once; that of the package itself lies inside it."""
    with zipfile.ZipFile(wheel) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".py"))
        layers = archive.read("my_model/layers_treaty.py").decode()
        train = archive.read("my_model/train_treaty.py").decode()
    assert names == [
        "my_model/__init__.py",
        "my_model/_treaty.py",
        "my_model/layers.py",
        "my_model/layers_treaty.py",
        "my_model/train.py",
        "my_model/train_treaty.py",
    ]
    assert "def linear_to_state_dict" in layers
    assert "def train_state_to_state_dict" in train


def assert_sdist_is_fresh(sdist: Path, wheel: Path) -> None:
    with tarfile.open(sdist) as archive, zipfile.ZipFile(wheel) as expected:
        for name in ("my_model/_treaty.py", "my_model/layers_treaty.py", "my_model/train_treaty.py"):
            file = archive.extractfile(f"my_model-1.0/src/{name}")
            assert file is not None
            assert file.read() == expected.read(name)
        assert archive.getnames().count("my_model-1.0/src/my_model/layers_treaty.py") == 1


def assert_tells_the_mistake(output: str) -> None:
    assert "error: treaty could not generate the code of this project:" in output
    line = next(line for line in output.splitlines() if "Linear.bias" in line)
    assert "my_model/layers.py:" in line
    assert "cannot store set[int]" in line
    assert "Traceback" not in output


def imported(printed: str) -> list[Path]:
    return [Path(line).resolve() for line in printed.splitlines()]


def without_editables(project: UserProject) -> None:
    """Hatchling's other way of making editable installs, as the page says: `editables` need not be installed here."""
    if project.package.parent.name == "src":
        with (project.root / "pyproject.toml").open("a") as file:
            file.write('\n[tool.hatch.build]\ndev-mode-dirs = ["src"]\n')
