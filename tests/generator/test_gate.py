"""`treaty check` of projects with a lock: what a change breaks, what other packages changed, formats, and --against."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests import forked
from treaty.generator import commands
from treaty.generator._build import build_outputs
from treaty.generator._findings import Finding
from treaty.generator._report import as_github
from treaty.schema import TreatyError

STATE = """\
from typing import Annotated, Generic, NamedTuple, TypeVar

from numpy import ndarray as Array
from jaxtyping import Float32, Int32
from treaty.schema import Dims, Rule, field, migration, state
from dep.optim import Trace

P = TypeVar("P")


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]


@state
class Moments(Generic[P]):
    mu: P


@state
class Train:
    step: int
    blocks: list[Annotated[Linear, Dims(...)]]
    opt: Annotated[Moments[Linear], Dims(...)]
    trace: Annotated[Trace, Dims(...)]
"""
TRACE = """\
from typing import NamedTuple

from numpy import ndarray as Array
from jaxtyping import Float32


class Trace(NamedTuple):
    value: Float32[Array, "d"]
"""
KERNEL = 'kernel: Float32[Array, "d_in d_out"]'
BIAS = f'{KERNEL}\n    bias: Float32[Array, "d_out"]'
ADDED = (
    "LOAD-added: Linear.bias: expected float32[d_out], got nothing (breaks revision 1); "
    "write field(default=...) or field(factory=...), which fills it in for earlier checkpoints"
)
Run = Callable[..., tuple[int, str]]


class Project:
    """A project that was locked once, and a package that it uses, which lies elsewhere."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / "my" / "state.py"
        self.lock = root / "my" / "state_treaty.lock"
        self.dependency = root.parent / "site" / "dep" / "optim.py"

    def write(self) -> "Project":
        for file, text in {self.state: STATE, self.dependency: TRACE}.items():
            file.parent.mkdir(parents=True)
            (file.parent / "__init__.py").touch()
            file.write_text(text)
        (self.root / "pyproject.toml").write_text('[tool.treaty]\nmodules = ["my.state"]\n')
        return self

    def change(self, old: str, new: str) -> None:
        assert old in self.state.read_text()
        self.state.write_text(self.state.read_text().replace(old, new))

    def treaty(self, name: str, *arguments: str) -> tuple[int, str]:
        """A command in this process: its exit code, and all that it prints."""
        done = CliRunner().invoke(getattr(commands, name), arguments)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    def findings(self, *arguments: str) -> list[str]:
        """The findings of rules, without those of generated files and without diffs, less the file that all are in."""
        code, printed = self.treaty("check", *arguments)
        lines = [line for line in printed.splitlines() if re.match(r"\S+: (SILENT|LOAD|PROCESS|DRIFT)-", line)]
        assert code == (1 if printed != "1 generated module fresh\n" else 0), printed
        return lines

    def broken(self, *arguments: str) -> list[str]:
        return [line.partition(": ")[2] for line in self.findings(*arguments) if re.search(r": (SILENT|LOAD)-", line)]

    def git(self, *arguments: str) -> None:
        who = {
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@b",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@b",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        command = ["git", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false", *arguments]
        subprocess.run(command, cwd=self.root, env={**kept, **who}, check=True, capture_output=True)

    def commit(self) -> None:
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-qm", "some")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: locking takes a process that imports the module."""
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


def test_a_breach_is_told_where_it_is_and_not_of_all_that_reach_the_class(project: Project) -> None:
    project.change(KERNEL, BIAS)
    line = project.state.read_text().splitlines().index('    bias: Float32[Array, "d_out"]') + 1
    found = project.findings()
    assert found[0] == f"my/state.py:{line}: {ADDED}"
    assert [one.split(": ")[1:3] for one in found[1:]] == [["PROCESS-differs", "Linear"], ["PROCESS-differs", "Train"]]


def test_findings_come_before_what_differs_in_files_and_are_counted_at_the_end(project: Project) -> None:
    project.change(KERNEL, BIAS)
    lines = project.treaty("check")[1].splitlines()
    assert [line.startswith("my/state.py:") for line in lines[:4]] == [True, True, True, False]
    assert lines[3] == "my/state_treaty.py: stale or edited; run: treaty generate my.state"
    assert lines[-1] == "5 findings: 1 LOAD-added, 2 PROCESS-differs, 2 FRESH-stale"


def test_what_is_written_right_is_only_to_be_locked(project: Project) -> None:
    project.change(KERNEL, f"{BIAS} | None = None")
    assert [one.split(": ")[1] for one in project.findings()] == ["PROCESS-differs", "PROCESS-differs"]
    assert project.treaty("lock", "-m", "a bias")[0] == 0
    assert project.treaty("check")[0] == 0


def test_a_breach_inside_a_list_and_of_a_generic_class_has_its_path(project: Project) -> None:
    project.change("list[Annotated[Linear, Dims(...)]]", "list[float]")
    project.change("mu: P", "mu: P\n    nu: P")
    assert [line.partition(": expected")[0] for line in project.broken()] == [
        "LOAD-added: Moments.nu",
        "LOAD-type: Train.blocks[*]",
    ]


def test_what_several_revisions_break_is_one_finding(project: Project) -> None:
    project.change("step: int", "step: int\n    seed: int = 0")
    assert project.treaty("lock")[0] == 0
    project.change("step: int", "step: str")
    (line,) = project.broken()
    assert "(breaks revisions 1, 2)" in line


def test_taking_back_what_was_said_of_an_earlier_revision_breaks_it_again(project: Project) -> None:
    project.change("step: int", 'count: int = field(aliases=("step",))')
    assert project.treaty("lock")[0] == 0
    project.change('count: int = field(aliases=("step",))', "count: int")
    (line,) = project.broken()
    assert line.startswith("LOAD-renamed: Train.step: ")
    code, printed = project.treaty("lock")
    assert code == 2
    assert "LOAD-renamed: Train.step: " in printed


def test_lock_refuses_with_the_same_line_and_says_how_to_give_up(project: Project) -> None:
    project.change(KERNEL, BIAS)
    code, printed = project.treaty("lock")
    assert code == 2
    assert f": {ADDED}; to give up what breaks: --orphan Linear:1 --why '...'" in printed


def test_what_is_given_up_is_not_told_nor_is_what_reaches_it(project: Project) -> None:
    project.change(KERNEL, BIAS)
    code, printed = project.treaty("lock", "--orphan", "Linear:1", "--why", "never released")
    assert code == 0, printed
    assert "Train: revision 1 is orphaned: with what it reaches at $.blocks[*].bias" in printed
    assert project.treaty("check")[0] == 0


@pytest.mark.parametrize("rule", ["LOAD", "LOAD-added"])
def test_a_waiver_names_a_rule_or_a_rule_with_its_kind(project: Project, rule: str) -> None:
    project.change(KERNEL, BIAS)
    assert project.treaty("lock", "--waive", f"{rule}:Linear:1", "--why", "no checkpoint was kept")[0] == 0
    assert project.treaty("check")[0] == 0
    assert '"why": "no checkpoint was kept"' in project.lock.read_text()


@pytest.mark.parametrize("waiver", ["LOAD-dtype:Linear:1", "LOAD:Train:1", "LOAD:Linear:9", "SILENT:Train:1"])
def test_a_waiver_of_another_kind_class_or_revision_waives_nothing_and_is_refused(
    project: Project, waiver: str
) -> None:
    project.change(KERNEL, BIAS)
    assert project.treaty("lock", "--waive", waiver, "--why", "no") == (
        2,
        f"error: --waive {waiver}: expected a finding that is not waived yet, got none; "
        "treaty check lists them, with the revisions that they are of\n",
    )


def test_a_waiver_covers_what_was_found_then_and_nothing_that_comes_later(project: Project) -> None:
    project.change("step: int", "step: int\n    first: int\n    second: float")
    assert project.treaty("lock", "--orphan", "Train:1", "--why", "of a test")[0] == 0
    project.change("    first: int\n", "")
    assert project.treaty("lock", "--waive", "LOAD-removed:Train:2", "--why", "never read")[0] == 0
    assert project.treaty("check")[0] == 0
    project.change("    second: float\n", "")
    (line,) = project.broken()
    assert line.startswith(
        "LOAD-removed: Train.second: expected no such key in Train, got float (breaks revisions 2, 3)"
    )


def test_a_waiver_of_before_findings_were_kept_covers_the_rule(project: Project) -> None:
    entry = '{"event": "waived", "rule": "LOAD", "class": "my.state:Train", "revision": 1, "why": "old"}'
    text = re.sub(r',\n  "follows": "[^"]+"', "", project.lock.read_text())
    project.lock.write_text(text.replace("\n]}\n", f",\n {entry}\n]}}\n"))
    project.change("    step: int\n", "")
    assert project.broken() == []


def test_a_waiver_goes_along_when_its_class_is_renamed(project: Project) -> None:
    project.change("    step: int\n", "")
    assert project.treaty("lock", "--waive", "LOAD-removed:Train:1", "--why", "never read")[0] == 0
    project.change("class Train:", "class Training:")
    assert project.treaty("lock", "--moved", "Train=Training")[0] == 0
    assert project.treaty("check")[0] == 0


@pytest.mark.parametrize(
    ("waiver", "said"),
    [
        ("LOAD-added:Linear", "expected RULE:CLASS:N, such as LOAD-dtype:Linear:1"),
        ("LAOD:Linear:1", "expected a rule that revisions break, such as LOAD or LOAD-dtype, got LAOD"),
        ("LOAD-add:Linear:1", "expected a rule that revisions break, such as LOAD or LOAD-dtype, got LOAD-add"),
        (
            "PROCESS-differs:Linear:1",
            "expected a rule that revisions break, such as LOAD or LOAD-dtype, got PROCESS-differs",
        ),
        ("FRESH:Linear:1", "expected a rule that revisions break, such as LOAD or LOAD-dtype, got FRESH"),
    ],
)
def test_a_waiver_of_what_cannot_be_waived_is_refused(project: Project, waiver: str, said: str) -> None:
    code, printed = project.treaty("lock", "--waive", waiver, "--why", "because")
    assert (code, printed) == (2, f"error: --waive {waiver}: {said}\n")


def test_a_field_that_another_package_added_is_drift(project: Project) -> None:
    project.dependency.write_text(f'{TRACE}    decay: Float32[Array, ""]\n')
    load, drift = project.findings()
    assert ": LOAD-added: Train.trace.decay: " in load
    assert drift.partition(": ")[2] == (
        "DRIFT-changed: Train.trace: dep.optim:Trace, of another package, changed (decay: added, float32[]); earlier checkpoints "
        "need help, as the SILENT and LOAD findings say, or the package as it was; then run: treaty lock my.state -m '...'"
    )


def test_drift_that_earlier_checkpoints_survive_is_only_to_be_locked(project: Project) -> None:
    project.dependency.write_text(TRACE.replace("Float32", "Float64"))
    (drift,) = project.findings()
    assert drift.partition(": ")[2] == (
        "DRIFT-changed: Train.trace: dep.optim:Trace, of another package, changed (value: float32[d] -> float64[d]); "
        "earlier checkpoints resolve; run: treaty lock my.state -m '...'"
    )
    assert project.treaty("lock")[0] == 0
    assert project.treaty("check")[0] == 0


def test_a_class_that_another_package_renamed_is_followed_with_moved(project: Project) -> None:
    project.dependency.write_text(TRACE.replace("Trace", "TraceState"))
    project.change("import Trace\n", "import TraceState as Trace\n")
    moved = "--moved dep.optim:Trace=dep.optim:TraceState"
    silent, drift = project.findings()
    assert ": SILENT-class: Train.trace: " in silent
    assert drift.partition(": ")[2] == (
        "DRIFT-renamed: Train.trace: dep.optim:Trace, of another package, is dep.optim:TraceState now; if it is the same under another "
        f"name, run: treaty lock my.state {moved}; if not, write a migration, then run: treaty lock my.state -m '...'"
    )
    code, printed = project.treaty("lock", *moved.split())
    assert code == 0, printed
    assert project.treaty("check")[0] == 0


def test_a_class_of_another_package_that_the_user_swapped_is_no_drift(project: Project) -> None:
    project.dependency.write_text(TRACE + TRACE.partition("\n\n\n")[2].replace("Trace", "Mean"))
    project.change("import Trace\n", "import Mean as Trace\n")
    assert [line.split(": ")[1] for line in project.findings()] == ["SILENT-class", "PROCESS-differs"]


INNER = """\
from treaty.schema import migration, state


@state
class Inner:
    scale: float
"""
MEANING = """

@migration(Inner, 1)
def in_percent(old):
    return {"scale": old["scale"] * 100}
"""


def test_another_meaning_in_an_installed_package_is_a_revision_of_what_reaches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its declaration is the same: which revision a checkpoint has inside is known by `uses` alone."""
    site, own = tmp_path / "site", tmp_path / "own"
    outer = "from treaty.schema import state\nfrom dep import Inner\n\n\n@state\nclass Outer:\n    inner: Inner\n"
    for root, name, text in ((site, "dep", INNER), (own, "mine", outer)):
        root.mkdir()
        (root / f"{name}.py").write_text(text)
        (root / "pyproject.toml").write_text(f'[tool.treaty]\nmodules = ["{name}"]\n')
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    def run(root: Path, name: str, *arguments: str) -> tuple[int, str]:
        monkeypatch.chdir(root)
        done = CliRunner().invoke(getattr(commands, name), arguments)
        return done.exit_code, done.output

    assert run(site, "lock")[0] == 0
    assert run(own, "lock")[0] == 0
    (site / "dep.py").write_text(INNER + MEANING)
    assert run(site, "lock")[0] == 0

    code, printed = run(own, "check")
    assert code == 1
    assert "LOAD-" not in printed
    assert "PROCESS-differs: Outer: its declaration differs from revision 1 (through Inner)" in printed
    assert run(own, "lock")[0] == 0
    assert run(own, "check")[0] == 0


def test_json_has_all_that_a_line_says(project: Project) -> None:
    project.change(KERNEL, BIAS)
    code, printed = project.treaty("check", "--format", "json")
    data = json.loads(printed)
    assert (code, data["ok"], data["errors"]) == (1, False, [])
    first = data["findings"][0]
    line = first.pop("line")
    assert project.state.read_text().splitlines()[line - 1].lstrip().startswith("bias: ")
    assert first == {
        "rule": "LOAD",
        "kind": "added",
        "file": "my/state.py",
        "class": "my.state:Linear",
        "field": "bias",
        "message": "expected float32[d_out], got nothing",
        "fix": "write field(default=...) or field(factory=...), which fills it in for earlier checkpoints",
        "revisions": [1],
        "source": None,
        "diff": "",
    }
    assert data["findings"][-1]["kind"] == "stale"
    assert data["findings"][-1]["diff"].startswith("--- on disk\n")


def test_json_and_github_of_a_fine_project(project: Project) -> None:
    code, printed = project.treaty("check", "--format", "json")
    assert (code, json.loads(printed)) == (0, {"ok": True, "findings": [], "errors": []})
    assert project.treaty("check", "--format", "github") == (0, "")


def test_github_has_annotations_first_and_diffs_folded_below(project: Project) -> None:
    project.change(KERNEL, BIAS)
    lines = project.treaty("check", "--format", "github")[1].splitlines()
    assert lines[0].startswith(
        "::error file=my/state.py,line=14,title=LOAD-added::Linear.bias: expected float32[d_out], got"
    )
    assert [line.split(" ")[0] for line in lines[:6]] == ["::error"] * 5 + ["::group::my/state_treaty.py"]
    assert lines[-1] == "::endgroup::"


def test_github_gets_what_would_end_a_message_or_a_property_by_its_number() -> None:
    finding = Finding("LOAD", "added", "a,b:c.py", "50%\nmore: this, that", line=3)
    assert list(as_github([finding], [])) == [
        "::error file=a%2Cb%3Ac.py,line=3,title=LOAD-added::50%25%0Amore: this, that"
    ]


@pytest.mark.parametrize("form", ["json", "github"])
def test_what_cannot_be_read_is_exit_code_2_in_every_format(project: Project, form: str) -> None:
    project.change("step: int", "step: set[int]")
    code, printed = project.treaty("check", "--format", form)
    assert code == 2
    assert printed.count("Train.step: cannot store set[int]") == 2  # on standard error, too


def test_a_commit_has_nothing_that_is_not_here(project: Project) -> None:
    project.commit()
    project.change("step: int", "step: int\n    seed: int = 0")
    assert project.treaty("lock")[0] == 0
    assert project.findings("--against", "HEAD") == []


def test_history_that_was_rewritten_is_found_and_what_it_had_is_resolved(project: Project) -> None:
    project.commit()
    for path in project.lock.parent.glob("state_treaty*"):
        path.unlink()
    project.change(KERNEL, BIAS)
    assert project.treaty("lock")[0] == 0
    assert project.findings() == []
    rewritten = "history is only added to: bring the branch up to date with HEAD, or restore the file from there, then run treaty lock"
    found = project.findings("--against", "HEAD")
    assert f"my/state.py:14: {ADDED.replace('revision 1', 'revision 1 of HEAD')}" in found
    for name in ("Linear", "Train"):
        line = f"my/state_treaty.lock: PROCESS-rewritten: {name}: revision 1 is not the one of HEAD; {rewritten}"
        assert line in found
    assert len(found) == 3


def test_a_lock_that_is_behind_a_commit_lacks_its_revision(project: Project) -> None:
    before = {path: path.read_text() for path in [project.state, *project.lock.parent.glob("state_treaty*")]}
    project.change("step: int", "step: int\n    seed: int = 0")
    assert project.treaty("lock")[0] == 0
    project.commit()
    for path, text in before.items():
        path.write_text(text)
    load, process = project.findings("--against", "HEAD")
    assert ": LOAD-removed: Train.seed: " in load
    assert "(breaks revision 2 of HEAD)" in load
    assert process.startswith("my/state_treaty.lock: PROCESS-rewritten: Train: revision 2 of HEAD is not here; ")


def test_a_lock_that_was_deleted_is_missed(project: Project) -> None:
    project.commit()
    for path in project.lock.parent.glob("state_treaty*"):
        path.unlink()
    assert project.treaty("generate")[0] == 0
    assert [line.partition(";")[0] for line in project.findings("--against", "HEAD")] == [
        f"my/state_treaty.lock: PROCESS-rewritten: my.state:{name} is locked in HEAD, and not here"
        for name in ("Linear", "Moments", "Train")
    ]


def test_a_class_that_was_renamed_or_given_up_is_not_missed(project: Project) -> None:
    project.commit()
    project.state.write_text(STATE.replace("Linear", "Dense"))
    assert project.treaty("lock", "--moved", "Linear=Dense")[0] == 0
    assert project.findings("--against", "HEAD") == []
    project.state.write_text(STATE.partition("@state\nclass Moments")[0].replace("Linear", "Dense"))
    gone = [part for name in ("Moments", "Train") for part in ("--orphan", f"my.state:{name}:all")]
    code, printed = project.treaty("lock", *gone, "--why", "nobody has one")
    assert code == 0, printed
    assert project.findings("--against", "HEAD") == []


def test_another_lock_is_asked_as_a_commit_is(project: Project, tmp_path: Path) -> None:
    other = tmp_path / "other.lock"
    shutil.copy(project.lock, other)
    project.change("step: int", "step: int\n    seed: int = 0")
    assert project.treaty("lock")[0] == 0
    assert project.findings("--against", str(other)) == []
    shutil.copy(project.lock, other)
    other.write_text(other.read_text().replace('"default": "0"', '"default": "1"'))
    code, printed = project.treaty("check", "--against", str(other))
    assert code == 2
    assert "my.state:Train revision 2: the entry was edited, or one before it" in printed


@pytest.fixture
def checkpoints(project: Project) -> list[str]:
    names = ["a", "a.msgpack", "a.safetensors", "a.npz"]
    code = f"""
import numpy as np
from my.state import Linear
from treaty.runtime import save
for name in {names}:
    save(name, Linear(kernel=np.ones((2, 3), np.float32)))
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(project.root), os.environ["PYTHONPATH"]])}
    forked.run("python", "-c", code, cwd=project.root, env=env).check_returncode()
    return names


def test_checkpoints_of_every_format_are_asked_what_a_restore_would_say(
    project: Project, checkpoints: list[str]
) -> None:
    asked = [part for name in checkpoints for part in ("--against", name)]
    assert project.findings(*asked) == []
    project.change(KERNEL, BIAS)
    assert project.treaty("lock", "--orphan", "Linear:1", "--why", "to see it fail")[0] == 0
    found = [line.partition(": ")[2] for line in project.findings(*asked)]
    for name in checkpoints:
        lines = [line for line in found if line.startswith(f"LOAD-checkpoint: Linear: {name}")]
        assert any("float32[d_out" in line and "$.bias" in line for line in lines), (name, found)


def test_a_checkpoint_waits_for_fresh_code(project: Project, checkpoints: list[str]) -> None:
    project.change(KERNEL, BIAS)
    printed = project.treaty("check", "--against", "a")[1]
    assert "\na: not compared: that takes fresh code; run: treaty generate\n" in printed


def test_a_checkpoint_of_another_class_is_an_error(project: Project) -> None:
    np.savez("b.npz", other=np.zeros(3))
    code, printed = project.treaty("check", "--against", "b.npz")
    assert code == 1
    assert "LOAD-checkpoint: " in printed
    assert "b.npz, which fits no class, as the one that it is nearest to: " in printed


@pytest.mark.parametrize("target", ["nowhere", "-x", "HEAD"])
def test_what_is_no_path_and_no_commit_is_an_error_that_says_both(project: Project, target: str) -> None:
    code, printed = project.treaty("check", f"--against={target}")
    assert code == 2
    assert printed == (
        f"error: --against {target}: expected a lock or a checkpoint that is there, or a commit that git knows in ., got neither; "
        "a branch of a server must be fetched first\n"
    )


def test_a_path_wins_over_a_commit(project: Project) -> None:
    project.commit()
    Path("HEAD").write_text("no checkpoint")
    assert project.treaty("check", "--against", "HEAD")[0] == 2
    assert project.findings("--against", "HEAD~0") == []


def test_a_lock_of_another_tool_and_of_another_project_are_errors(project: Project, tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text("version = 1\n")
    code, printed = project.treaty("check", "--against", str(tmp_path / "uv.lock"))
    assert (code, "uv.lock: expected a lock in JSON" in printed) == (2, True)
    text = project.lock.read_text().replace("my.state", "their.model")
    (tmp_path / "their.lock").write_text(text)
    code, printed = project.treaty("check", "--against", str(tmp_path / "their.lock"))
    assert code == 2


def test_a_build_fails_with_the_lines_of_what_breaks(project: Project) -> None:
    project.change(KERNEL, f"{BIAS} | None = None")
    assert build_outputs(project.root)
    project.state.write_text(STATE.replace(KERNEL, BIAS))
    with pytest.raises(TreatyError) as caught:
        build_outputs(project.root)
    assert str(caught.value) == (
        f"earlier checkpoints of this project could not be restored any more:\n  my/state.py:14: {ADDED}"
    )


SPREAD = 'blocks: Annotated[list[Linear], Keys("block_{i}"), Dims(...)]'


def test_items_that_lie_beside_the_other_keys_now_are_an_error_on_load(project: Project) -> None:
    project.change("import Dims,", "import Dims, Keys,")
    project.change("blocks: list[Annotated[Linear, Dims(...)]]", SPREAD)
    (renamed,) = project.broken()
    said = "LOAD-renamed: Train.blocks: expected to know what became of 'blocks', got a new field 'block_{i}' of the same type"
    assert renamed.startswith(said)
    assert "if that is it, write blocks = field(aliases=('blocks',))" in renamed

    project.change(SPREAD, f'{SPREAD} = field(aliases=("blocks",))')
    assert project.broken() == []
    assert project.treaty("lock")[0] == 0
    project.change("block_{i}", "layer_{i}")
    (renamed,) = project.broken()
    assert "write blocks = field(aliases=('block_{i}',))" in renamed
    project.change('aliases=("blocks",)', 'aliases=("blocks", "block_{i}")')
    assert project.broken() == []
