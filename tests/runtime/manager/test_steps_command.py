"""`treaty steps`: what is there, how large and old, and whether it stays."""

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.faults.states import Run, run
from treaty.runtime import CheckpointManager, save
from treaty.runtime.commands.steps import steps
from treaty.runtime.formats.shared.format import Writing
from treaty.runtime.formats.table import format_to_write


def treaty_steps(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(steps, list(arguments), catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with CheckpointManager(tmp_path / "run", Run) as manager:
        for step in (1, 20):
            manager.save(step, run(step), metrics={"loss": 1 / step, "bad": float("nan")})
    CheckpointManager(tmp_path / "run", Run, keep_last=1, keep_best=("loss", "max", 1)).close()
    return tmp_path / "run"


def test_steps_are_shown_with_size_age_and_metrics(folder: Path) -> None:
    lines = treaty_steps(str(folder)).splitlines()
    assert lines[0].split() == ["step", "size", "age", "metrics"]
    assert re.fullmatch(r"1 +1\.1 KiB +\d+ (s|min) +loss=1 bad=nan", lines[1])
    assert re.fullmatch(r"20 +1\.1 KiB +\d+ (s|min) +loss=0\.05 bad=nan", lines[2])


def test_the_plan_is_that_of_the_last_managers_rules(folder: Path) -> None:
    lines = treaty_steps(str(folder), "--plan").splitlines()
    assert lines[1].endswith("stays: max loss (1 of 1)")
    assert lines[2].endswith("stays: newest, keep_last=1")
    assert sorted(os.listdir(folder)) == [".treaty", "1", "20"]


def test_json_has_all_of_it(folder: Path) -> None:
    found = json.loads(treaty_steps(str(folder), "--json"))
    assert found["rules"] == {"keep_last": 1, "keep_every": None, "keep_best": [["loss", "max", 1]]}
    (first, second) = found["steps"]
    assert first["metrics"] == {"loss": 1.0, "bad": "nan"}
    assert (second["step"], second["nbytes"], second["kept"]) == (20, 1092, True)
    assert second["path"] == str(folder / "20")


@pytest.mark.parametrize(
    "rules", ["", "[]", '{"keep_last": "all"}', '{"keep_best": [[1, 2]]}', "{", '{"keep_last": 0}', "[" * 10**5]
)
def test_rules_that_are_none_keep_all(rules: str, folder: Path) -> None:
    (folder / ".treaty" / "rules.json").write_text(rules)
    assert "goes" not in treaty_steps(str(folder), "--plan")


def test_a_metric_that_is_no_float_is_none(tmp_path: Path) -> None:
    note = {"step": 1, "time": 1.5, "metrics": {"loss": 10**400, "accuracy": 1}}
    format_to_write(str(tmp_path / "1")).write(str(tmp_path / "1"), {"n": 1}, Writing(step=note))
    (found,) = json.loads(treaty_steps(str(tmp_path), "--json"))["steps"]
    assert found["metrics"] == {"accuracy": 1.0}


def test_a_clock_that_jumped_and_a_damaged_step_are_shown_as_such(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 5.0)
    (folder / "20" / "treaty.json").write_bytes(b"{}")
    lines = treaty_steps(str(folder), "--plan").splitlines()
    assert "from the future" in lines[1]
    assert lines[2].split(maxsplit=1)[1].strip() == "stays: damaged, and left for you to look at"


def test_what_is_no_directory_of_steps_is_an_error(tmp_path: Path) -> None:
    assert "expected a directory of steps, got none at " in treaty_steps(str(tmp_path), code=3)
    assert "expected a directory of steps, got none at " in treaty_steps(str(tmp_path / "nothing"), code=3)
    save(tmp_path / "one", run(1))
    assert "expected a directory of steps, got one checkpoint at " in treaty_steps(str(tmp_path / "one"), code=2)


@pytest.mark.skipif(
    not Path("/proc/self/mem").exists(), reason="needs a file whose reading fails as a broken disk does"
)
def test_rules_that_the_disk_does_not_give_are_one_line_and_no_traceback(folder: Path) -> None:
    (folder / ".treaty" / "rules.json").unlink()
    (folder / ".treaty" / "rules.json").symlink_to("/proc/self/mem")
    assert f"cannot read {folder}: Input/output error" in treaty_steps(str(folder), code=2)
