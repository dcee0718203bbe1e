"""What is offered for a name that is not there."""

from pathlib import Path

import pytest

from treaty.schema._nearest import near_modules, near_names, near_paths


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("missing", "near"),
    [
        ("run/90", ["run/80", "run/100"]),
        ("run/5", ["run/80"]),
        ("run/500", ["run/120"]),
        ("steps/step_0009.npz", ["steps/step_0008.npz", "steps/step_0010.npz"]),
        ("steps/step_0008.npy", ["steps/step_0008.npz", "steps/step_0010.npz"]),
        ("rum", ["run"]),
        ("rum/", ["run"]),
        ("nowhere/90", []),
        ("run", []),  # it is there
        ("s3://bucket/run/90", []),
        ("\0", []),
        ("", []),
        ("run/\udcff", []),
    ],
)
def test_paths(missing: str, near: list[str], here: Path) -> None:
    for name in ("run/80", "run/100", "run/120", "run/other", "steps/step_0008.npz", "steps/step_0010.npz"):
        (here / name).mkdir(parents=True)
    assert near_paths(missing) == near
    if near and not missing.endswith("/"):
        assert near_paths(str(here / missing)) == [str(here / one) for one in near]


def test_modules_of_the_project_and_of_a_package_but_none_of_pythons_own(here: Path) -> None:
    (here / "states.py").touch()
    assert near_modules("state", ModuleNotFoundError(name="state")) == ["states"]
    assert near_modules("state.deep", ModuleNotFoundError(name="state")) == ["states"]
    assert near_modules("jsom", ModuleNotFoundError(name="jsom")) == []
    assert near_modules("os.pth", ModuleNotFoundError(name="os.pth")) == []  # which is no package
    found = near_modules("treaty.schema.librry", ModuleNotFoundError(name="treaty.schema.librry"))
    assert found == ["treaty.schema.library"]
    assert near_modules("states", ModuleNotFoundError(name="jax")) == []  # another one is missing


def test_names() -> None:
    assert near_names("TrainStat", ["Params", "TrainState"]) == ["TrainState"]
