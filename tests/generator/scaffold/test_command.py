"""`treaty scaffold` as people run it: it writes, checks, shows what changed, and never overwrites."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from flax import serialization

from treaty.cli import main

TRAIN = '''"""A script."""

import jax.numpy as jnp
import optax


def make_state(d_in: int = 4, d_out: int = 3):
    params = {"w": jnp.ones((d_in, d_out)), "b": jnp.zeros(d_out)}
    return {"step": 0, "params": params, "opt_state": optax.adam(1e-3).init(params)}
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("train", "state", "state_treaty", "other", "other_treaty"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["scaffold", *arguments], catch_exceptions=False)


def test_it_writes_and_says_when_nothing_changed(folder: Path) -> None:
    assert run("train:make_state", "-o", "state.py").output == "wrote state.py\n"
    again = run("train:make_state", "-o", "state.py")
    assert (again.exit_code, again.output) == (0, "fresh state.py\n")
    assert run("train:make_state").output == (folder / "state.py").read_text()


def test_a_file_that_differs_stays_and_the_difference_is_shown(folder: Path) -> None:
    run("train:make_state", "-o", "state.py")
    edited = (folder / "state.py").read_text().replace("Params", "Weights")
    (folder / "state.py").write_text(edited)
    result = run("train:make_state", "-o", "state.py")
    assert result.exit_code == 1
    assert "-class Weights:\n+class Params:\n" in result.output
    assert "stays as it is: take over what you want of this by hand, or all of it with --force" in result.output
    assert (folder / "state.py").read_text() == edited
    assert run("train:make_state", "-o", "state.py", "--force").output == "wrote state.py\n"


def test_check_generates_asks_mypy_and_takes_the_state_to_a_checkpoint_and_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mypy", None)  # what it says is tested in docs/scaffold.md, and takes long
    result = run("train:make_state", "-o", "state.py", "--check", "--name", "Whole")
    assert (result.exit_code, result.output.splitlines()) == (
        0,
        [
            "wrote state.py",
            "wrote state_treaty.py",
            "mypy --strict: not installed, and left out",
            "round trip: 8 leaves of train:make_state(d_in=4, d_out=3) came back bit for bit",
        ],
    )


def test_mypy_is_asked_about_what_was_written_and_not_about_the_script(folder: Path) -> None:
    """The schema imports an enum from the script, which is nobody's to annotate here."""
    (folder / "train.py").write_text(
        "import enum\nimport jax.numpy as jnp\n\n\nclass Mode(enum.IntEnum):\n    WARM = 1\n\n\n"
        "def make_state(d=4):\n    return {'mode': Mode.WARM, 'w': jnp.ones(d)}\n"
    )
    result = run("train:make_state", "-o", "state.py", "--check")
    assert "from train import Mode" in (folder / "state.py").read_text()
    assert result.output.splitlines()[2:] == [
        "mypy --strict: Success: no issues found in 2 source files",
        "round trip: 2 leaves of train:make_state(d=4) came back bit for bit",
    ]


def test_enums_that_are_called_as_each_other_or_as_a_class_are_told_apart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mypy", None)
    (folder / "other.py").write_text("import enum\n\n\nclass Mode(enum.IntEnum):\n    COLD = 1\n")
    (folder / "train.py").write_text(
        "import enum\nimport jax.numpy as jnp\nimport other\n\n\nclass Mode(enum.IntEnum):\n    WARM = 1\n\n\n"
        "def make_state(d=4):\n    mode = {'w': jnp.ones(d), 'now': Mode.WARM, 'then': other.Mode.COLD}\n"
        "    return {'mode': mode, 'w': jnp.ones(d)}\n"
    )
    result = run("train:make_state", "-o", "state.py", "--check")
    text = (folder / "state.py").read_text()
    assert result.output.splitlines()[-1] == "round trip: 4 leaves of train:make_state(d=4) came back bit for bit"
    assert [line for line in text.splitlines() if "Mode" in line] == [
        "from other import Mode as Mode2",
        "from train import Mode",
        "class TrainStateMode:",
        "    now: Mode",
        "    then: Mode2",
        "    mode: Annotated[TrainStateMode, Dims(...)]",
    ]


def test_a_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mypy", None)
    (folder / "run.msgpack").write_bytes(serialization.to_bytes({"step": 3, "w": [1.5, None, "text"]}))
    result = run("run.msgpack", "-o", "other.py", "--check")
    assert result.output.splitlines()[-1] == "round trip: 3 leaves of run.msgpack came back bit for bit"


def test_a_schema_is_checked_as_the_module_that_the_script_beside_it_imports(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mypy", None)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "run.py").write_text("from state import TrainState")
    result = run("train:make_state", "-o", "scripts/state.py", "--check")
    assert result.output.splitlines()[:2] == ["wrote scripts/state.py", "wrote scripts/state_treaty.py"]
    assert "import state as _state" in (folder / "scripts" / "state_treaty.py").read_text()


def test_bad_arguments_are_one_line_each(folder: Path) -> None:
    (folder / "bytes.msgpack").write_bytes(b"\xc1\xff")
    (folder / "broken.py").write_text("raise RuntimeError('boom')")
    for arguments, message in [
        (["train"], "TARGET: expected PKG.MODULE:FACTORY, such as train:make_state, or a checkpoint, got 'train'"),
        (["missing:make"], "TARGET: No module named 'missing'"),
        (["broken:make"], "TARGET: RuntimeError: boom"),
        (["train:none"], "TARGET: module 'train' has no attribute 'none'"),
        (["train:__doc__"], "train:__doc__: expected a function that returns the state, got str"),
        (["train:make_state", "--dim", "d_in"], "--dim d_in: expected NAME=SIZE,SIZE,…, such as d_model=64,96"),
        (["train:make_state", "--dim", "d_in=0"], "--dim d_in=0: expected NAME=SIZE,SIZE,…, such as d_model=64,96"),
        (["train:make_state", "--name", "a b"], "--name a b: expected the name of a class, such as TrainState"),
        (["train:make_state", "--check"], "--check: expected a file to write, got none; add -o state.py"),
        (["train:make_state", "-o", "state"], "-o state: expected a Python module, such as state.py"),
        (["bytes.msgpack", "--dim", "d=3"], "--dim: a checkpoint has the sizes that it has; leave it out"),
    ]:
        result = run(*arguments)
        assert (result.exit_code, result.output) == (2, f"error: {message}\n"), arguments
    assert run("bytes.msgpack").output.startswith("error: expected ")
    assert run(".").output.startswith("error: expected ")
