"""What both build hooks put into a distribution."""

import sys
from pathlib import Path

import pytest

from tests.project.user_project import UserProject, succeed
from treaty.generator._build import build_outputs, lock_files
from treaty.schema import TreatyError


def test_modules_of_the_project_that_are_used_but_not_listed_are_generated_too(tmp_path: Path) -> None:
    project = UserProject.write(tmp_path / "project", '[tool.treaty]\nmodules = ["my_model.train"]\n', "src")

    outputs = build_outputs(project.root)

    assert [output.name for output in outputs] == ["my_model/train_treaty.py", "my_model/layers_treaty.py"]
    assert [output.path for output in outputs] == [
        project.package / "train_treaty.py",
        project.package / "layers_treaty.py",
    ]
    assert project.generated == {}


def test_the_code_of_a_package_lies_inside_it(tmp_path: Path) -> None:
    project = UserProject.write(tmp_path / "project", '[tool.treaty]\nmodules = ["my_model.train"]\n', "src")
    project.declare_in_package()

    outputs = {output.name: output for output in build_outputs(project.root)}

    assert outputs["my_model/_treaty.py"].path == project.package / "_treaty.py"
    assert "import my_model._treaty as __treaty" not in outputs["my_model/train_treaty.py"].text
    assert "import my_model._treaty as _treaty" in outputs["my_model/train_treaty.py"].text


def test_code_of_installed_packages_is_left_to_them(tmp_path: Path) -> None:
    project = UserProject.write(tmp_path / "project", '[tool.treaty]\nmodules = ["my_model.fit"]\n')
    (project.package / "fit.py").write_text(
        "from treaty.schema import state\nfrom installed.layers import Linear\n\n\n@state\nclass Fit:\n    head: Linear\n"
    )
    # Not where the project's modules are looked for, as site-packages of a .venv in its root are not.
    installed = project.root / ".venv" / "installed"
    installed.mkdir(parents=True)
    (installed / "layers.py").write_text((project.package / "layers.py").read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(project.root / ".venv"))

        outputs = build_outputs(project.root)

    assert [output.name for output in outputs] == ["my_model/fit_treaty.py"]


def test_out_is_where_the_tree_keeps_the_files_not_where_they_are_installed(tmp_path: Path) -> None:
    settings = '[tool.treaty]\nmodules = ["my_model.layers"]\nout = "generated"\n'
    project = UserProject.write(tmp_path / "project", settings)

    (output,) = build_outputs(project.root)

    assert output.name == "my_model/layers_treaty.py"
    assert output.path == project.root / "generated" / "my_model" / "layers_treaty.py"


def test_a_missing_module_is_named(tmp_path: Path) -> None:
    project = UserProject.write(tmp_path / "project", '[tool.treaty]\nmodules = ["my_model.trian"]\n')

    with pytest.raises(
        TreatyError, match=r"could not generate.*\n  my_model\.trian: .*No module named 'my_model.trian'"
    ):
        build_outputs(project.root)


def test_a_project_without_modules_is_told_how_to_list_them(tmp_path: Path) -> None:
    project = UserProject.write(tmp_path / "project", "")

    with pytest.raises(TreatyError, match=r"(?s)lists no modules.*\[tool.treaty\].*modules = "):
        build_outputs(project.root)


def test_a_lock_goes_along_with_the_history_that_is_made_from_it(tmp_path: Path) -> None:
    project = UserProject.write(tmp_path / "project", '[tool.treaty]\nmodules = ["my_model.train"]\n', "src")
    succeed(sys.executable, "-m", "treaty.cli", "lock", cwd=project.root)
    for path in project.package.glob("*_treaty*.py"):
        path.unlink()
    (project.root / "uv.lock").write_text("of another tool\n")

    outputs = {output.name: output for output in build_outputs(project.root)}

    names = [
        f"my_model/{module}_treaty{end}" for module in ("train", "layers") for end in (".py", "_history.py", ".lock")
    ]
    assert list(outputs) == names
    assert outputs["my_model/train_treaty.lock"].text == (project.package / "train_treaty.lock").read_text()
    assert "class TrainStateV1(" in outputs["my_model/train_treaty_history.py"].text
    assert lock_files(project.root) == [project.package / "layers_treaty.lock", project.package / "train_treaty.lock"]


def test_a_lock_that_is_lost_fails_the_build(tmp_path: Path) -> None:
    project = UserProject.write(tmp_path / "project", '[tool.treaty]\nmodules = ["my_model.layers"]\n')
    (project.package / "layers_treaty_history.py").write_text("LOCK = ''\n")

    with pytest.raises(TreatyError, match=r"layers_treaty\.lock: expected the lock that .* was generated from"):
        build_outputs(project.root)
