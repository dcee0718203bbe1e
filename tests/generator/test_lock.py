"""`treaty lock`, and what `treaty check` says of a lock: run as a user runs them, in small projects of their own."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests import forked
from treaty.generator import check, commands
from treaty.generator._project import Project
from treaty.schema.evolution.lock import Lock

STATE = """
from typing import Annotated, Generic, TypeVar

from numpy import ndarray as Array
from jaxtyping import Float32, Int32
from treaty.schema import Dims, Rule, field, migration, state

P = TypeVar("P")


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]


@state
class Moments(Generic[P]):
    mu: P


@state
class Train:
    step: Int32[Array, ""]
    up: Annotated[Linear, Dims(...)]
    opt: Annotated[Moments[Linear], Dims(...)]
"""
KERNEL = '    kernel: Float32[Array, "d_in d_out"]\n'
BIAS = '    bias: Float32[Array, "d_out"] | None = None\n'
RENAMED = STATE.replace("Linear", "Dense")


def treaty(cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return forked.run("treaty", *args, cwd=cwd, env={**os.environ, "COLUMNS": "100"})


Run = Callable[..., tuple[int, str]]


def write_project(root: Path) -> None:
    (root / "my").mkdir()
    (root / "my" / "__init__.py").touch()
    (root / "my" / "state.py").write_text(STATE)
    (root / "pyproject.toml").write_text('[tool.treaty]\nmodules = ["my.state"]\n')


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `treaty lock` writes of the project, made once."""
    root = tmp_path_factory.mktemp("locked")
    write_project(root)
    assert treaty(root, "lock", "-m", "first").returncode == 0
    return root / "my"


@pytest.fixture
def run(project: Path, locked: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command of `treaty` in the project, locked once, in this process: its exit code, and all that it prints."""
    monkeypatch.chdir(project)
    for path in locked.glob("state_treaty*"):
        shutil.copy(path, project / "my")

    def run(name: str, *args: str) -> tuple[int, str]:
        done = CliRunner().invoke(getattr(commands, name), args)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    return run


def write(project: Path, text: str, name: str = "state") -> None:
    (project / "my" / f"{name}.py").write_text(text)


def lock_of(project: Path, name: str = "state") -> Lock:
    return Lock.parse((project / "my" / f"{name}_treaty.lock").read_text())


def findings(output: str) -> list[str]:
    """The lines of a check that are no differences of generated files."""
    return [line for line in output.splitlines() if ": PROCESS-" in line]


def test_the_first_lock_and_what_it_generates(project: Path) -> None:
    done = treaty(project, "lock", "-m", "first")

    assert done.stdout.splitlines() == [
        "Linear: revision 1",
        "Moments: revision 1",
        "Train: revision 1",
        "wrote my/state_treaty.lock",
        "wrote my/state_treaty.py",
        "wrote my/state_treaty_history.py",
    ]
    assert treaty(project, "check").stdout == "1 generated module fresh\n"
    history = (project / "my" / "state_treaty_history.py").read_text()
    assert "class MomentsV1(_TypedDict, _Generic[_T0]):\n" in history
    assert "    opt: MomentsV1[LinearV1]\n" in history
    assert f'LOCK = r"""\n{(project / "my" / "state_treaty.lock").read_text()}"""\n' in history
    assert (project / "my" / "state_treaty.py").read_text().count("    revision=1,\n") == 4


def test_without_a_lock_nothing_is_generated_of_it(project: Path) -> None:
    treaty(project, "generate")
    assert [path.name for path in (project / "my").glob("*treaty*")] == ["state_treaty.py"]
    assert "revision" not in (project / "my" / "state_treaty.py").read_text()


def test_a_change_gives_a_revision_to_the_class_and_to_those_that_reach_it(project: Path, run: Run) -> None:
    before = (project / "my" / "state_treaty.lock").read_text()
    write(project, STATE.replace(KERNEL, KERNEL + BIAS))

    code, said = run("check")
    assert code == 1
    assert findings(said) == [
        "my/state.py:11: PROCESS-differs: Linear: its declaration differs from revision 1 "
        "(bias: added, float32[d_out] | None, default None); run: treaty lock my.state -m '...'",
        "my/state.py:22: PROCESS-differs: Train: its declaration differs from revision 1 (through Linear); "
        "run: treaty lock my.state -m '...'",
    ]

    _, said = run("lock", "-m", "a bias")
    assert said.splitlines()[:2] == [
        "Linear: revision 2 (bias: added, float32[d_out] | None, default None)",
        "Train: revision 2 (through Linear)",
    ]
    after = (project / "my" / "state_treaty.lock").read_text()
    assert after.startswith(before.removesuffix("\n]}\n"))
    assert run("check") == (0, "1 generated module fresh\n")
    assert lock_of(project).lines["my.state:Train"][2].uses == {"my.state:Linear": 2, "my.state:Moments": 1}


def test_nothing_changed_writes_nothing(project: Path, run: Run) -> None:
    before = {path: path.stat().st_mtime_ns for path in (project / "my").iterdir()}
    assert run("lock") == (0, "nothing to lock: 3 classes are as locked\n")
    assert {path: path.stat().st_mtime_ns for path in (project / "my").iterdir()} == before


def test_what_only_readers_need_is_no_change(project: Path, run: Run) -> None:
    aliased = '    kernel: Float32[Array, "d_in d_out"] = field(aliases=("weight",), cast_from=("bfloat16",))\n'
    write(
        project, STATE.replace(KERNEL, aliased).replace("@state\nclass Train", '@state(reserved=("old",))\nclass Train')
    )
    run("generate")
    assert run("check")[0] == 0
    assert run("lock")[1] == "nothing to lock: 3 classes are as locked\n"


def test_a_declaration_that_is_not_locked_has_a_type_already(project: Path, run: Run) -> None:
    write(project, STATE.replace(KERNEL, KERNEL + BIAS) + "\n\n@state\nclass New:\n    up: Linear\n")
    run("generate")
    history = (project / "my" / "state_treaty_history.py").read_text()
    assert "class LinearV2(_TypedDict):" in history
    assert "    up: LinearV2\n" in history.partition("class NewV1(")[2]
    assert (project / "my" / "state_treaty.py").read_text().count("    revision=") == 2  # of Moments, twice


def test_a_change_that_orphans_a_revision_is_refused_unless_that_is_said(project: Path, run: Run) -> None:
    write(project, STATE.replace('"d_in d_out"', '"d_in"'))
    before = (project / "my" / "state_treaty.lock").read_text()

    code, said = run("lock")
    assert code == 2
    (line,) = said.splitlines()
    assert line.startswith(
        "error: my/state.py:13: LOAD-rank: Linear.kernel: expected float32[d_in], got float32[d_in, d_out] (breaks revision 1); "
    )
    assert line.endswith("; to give up what breaks: --orphan Linear:1 --why '...'")
    assert (project / "my" / "state_treaty.lock").read_text() == before

    assert run("lock", "--orphan", "Linear:1")[1].startswith("error: --orphan and --waive need a reason: ")
    code, said = run("lock", "--orphan", "Linear:1", "--why", "never trained")
    assert said.splitlines()[:4] == [
        "Linear: revision 1 is orphaned: never trained",
        "Train: revision 1 is orphaned: with what it reaches at $.up.kernel",
        "Linear: revision 2 (kernel: float32[d_in, d_out] -> float32[d_in])",
        "Train: revision 2 (through Linear)",
    ]
    assert run("check")[0] == 0


def test_a_class_that_vanished_is_asked_about(project: Path, run: Run) -> None:
    write(project, RENAMED)

    code, said = run("check")
    assert (
        "my/state.py: PROCESS-gone: Linear: is locked, and not declared any more; run: treaty lock my.state -m '...', which asks"
        in said
    )

    code, said = run("lock")
    assert code == 2
    assert said == (
        "error: my.state:Linear is locked, and not declared any more; if it has another name now, write "
        "--moved my.state:Linear=my.state:Dense; if nobody will restore it, --orphan my.state:Linear:all --why '...'\n"
    )


def test_a_class_that_was_renamed_keeps_its_history(project: Path, run: Run) -> None:
    write(project, RENAMED)

    _, said = run("lock", "--moved", "Linear=Dense", "-m", "a better name")

    assert said.splitlines()[0] == "my.state:Linear is my.state:Dense now"
    line = lock_of(project).lines["my.state:Dense"]
    assert (line.last, line.former) == (1, ("my.state:Linear",))
    assert "revision 2" not in said  # a name is nothing that is stored
    assert "class DenseV1(_TypedDict):" in (project / "my" / "state_treaty_history.py").read_text()
    assert run("check")[0] == 0


@pytest.mark.parametrize(("answer", "moved"), [("\n", True), ("gone\n", False)])
def test_on_a_terminal_the_likeliest_name_is_offered(
    answer: str, moved: bool, project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, RENAMED)
    monkeypatch.setattr(commands, "_is_terminal", lambda: True)
    done = CliRunner().invoke(commands.lock, [], input=answer)
    assert (
        "Its name now (likely: my.state:Dense), or 'gone' if nobody will restore it [my.state:Dense]: " in done.output
    )
    assert done.exit_code == (0 if moved else 2)
    if moved:
        assert lock_of(project).lines["my.state:Dense"].former == ("my.state:Linear",)
    else:  # what is gone does not come back under the name of another
        assert "SILENT-class: Train.up: expected my.state:Dense, got my.state:Linear" in done.output


def test_a_class_that_is_gone_is_given_up_with_a_reason(project: Path, run: Run) -> None:
    write(project, STATE.partition("@state\nclass Train")[0])
    _, said = run("lock", "--orphan", "Train:all", "--why", "another repository has it")
    assert said.splitlines()[0] == "my.state:Train is gone: another repository has it"
    assert [*lock_of(project).lines] == ["my.state:Linear", "my.state:Moments"]
    assert run("check")[0] == 0


def test_two_classes_that_swapped_their_names(project: Path, run: Run) -> None:
    pair = "\n@state\nclass {}:\n    a: int\n\n@state\nclass {}:\n    b: float\n"
    write(project, STATE + pair.format("One", "Two"))
    run("lock")
    write(project, STATE + pair.format("Two", "One"))
    assert "LOAD-removed: Two.b: " in run("lock")[1]

    run("lock", "--moved", "One=Two", "--moved", "Two=One")

    lock = lock_of(project)
    assert lock.lines["my.state:One"].former == ("my.state:Two",)
    assert lock.lines["my.state:One"].last == 1
    assert run("check")[0] == 0


@pytest.mark.parametrize(
    ("moved", "message"),
    [
        ("Linear", "--moved Linear: expected OLD=NEW, such as my.state:Linear=my.state:Dense"),
        ("Linear=Nothing", "expected a class, as module:Class, got 'Nothing'; known: "),
        ("Linear=Moments", "--moved my.state:Linear=my.state:Moments: my.state:Moments has revisions of its own"),
    ],
)
def test_a_move_that_cannot_be(moved: str, message: str, project: Path, run: Run) -> None:
    write(project, RENAMED)
    code, said = run("lock", "--moved", moved)
    assert code == 2
    assert message in said


def test_a_module_that_was_renamed_takes_its_lock_along(project: Path, run: Run) -> None:
    (project / "my" / "state.py").rename(project / "my" / "model.py")
    (project / "pyproject.toml").write_text('[tool.treaty]\nmodules = ["my.model"]\n')

    _, said = run("check")
    assert (
        "my/state_treaty.lock: PROCESS-stray-lock: the lock of my.state, which is not there any more; "
        "if it was renamed, run: treaty lock --moved my.state=my.model; if it is gone, delete the lock\n"
    ) in said

    assert run("lock") == (
        2,
        "error: my.state is locked, and not there any more; if it has another name now, write "
        "--moved my.state=my.model; for classes one by one, --moved or --orphan each\n",
    )

    run("lock", "--moved", "my.state=my.model")

    assert sorted(path.name for path in (project / "my").glob("*treaty*")) == [
        "model_treaty.lock",
        "model_treaty.py",
        "model_treaty_history.py",
    ]
    lines = lock_of(project, "model").lines
    assert {symbol: (line.last, line.former) for symbol, line in lines.items()} == {
        f"my.model:{name}": (1, (f"my.state:{name}",)) for name in ("Linear", "Moments", "Train")
    }
    assert run("check")[0] == 0


HYPER = """
from typing import NamedTuple


class Hyper(NamedTuple):
    decay: float


def one():
    return [1.0]


@state
class Tuned:
    hyper: Hyper
    scale: list[float] = field(factory=one)
"""


def test_a_module_that_was_renamed_takes_along_what_is_no_class_of_its_own_in_the_lock(project: Path, run: Run) -> None:
    """A NamedTuple has no revisions, and is known by its name all the same; so is the factory of a default."""
    write(project, STATE + HYPER)
    assert run("lock")[0] == 0
    (project / "my" / "state.py").rename(project / "my" / "model.py")
    (project / "pyproject.toml").write_text('[tool.treaty]\nmodules = ["my.model"]\n')

    code, said = run("lock", "--moved", "my.state=my.model")

    assert code == 0, said
    assert "my.state:Hyper is my.model:Hyper now" in said
    renamed = lock_of(project, "model").history("Tuned").renamed
    assert renamed["my.state:Hyper"] == "my.model:Hyper"
    assert renamed["my.state:one"] == "my.model:one"
    assert run("check")[0] == 0


@pytest.mark.parametrize("other", ["another", "kinds"])
def test_what_has_no_revisions_is_moved_by_its_name(other: str, project: Path, run: Run) -> None:
    """To a module with a name before or after that of the other, as locks are settled in that order."""
    write(project, STATE + HYPER)
    assert run("lock")[0] == 0
    write(project, STATE)
    write(project, "from treaty.schema import field, state\n" + HYPER, other)
    (project / "pyproject.toml").write_text(f'[tool.treaty]\nmodules = ["my.state", "my.{other}"]\n')
    moves = [f"my.state:{name}=my.{other}:{name}" for name in ("Tuned", "Hyper", "one")]

    code, said = run("lock", *(word for one in moves for word in ("--moved", one)))

    assert code == 0, said
    assert run("check")[0] == 0
    assert "revision 2" not in said or "scale: default" in said


def test_a_class_that_moved_to_another_module_takes_its_history_along(project: Path, run: Run) -> None:
    write(project, STATE.replace(KERNEL, KERNEL + BIAS))
    run("lock", "-m", "a bias")
    head, _, rest = STATE.partition("@state\nclass Linear")
    body, _, rest = rest.partition("@state\nclass Moments")
    write(project, head + "@state\nclass Linear" + body.replace(KERNEL, KERNEL + BIAS), "layers")
    write(project, head + "from my.layers import Linear\n\n@state\nclass Moments" + rest)

    code, said = run("lock", "--moved", "my.state:Linear=my.layers:Linear")

    assert code == 0, said
    line = lock_of(project, "layers").lines["my.layers:Linear"]
    assert (line.last, line.former) == (2, ("my.state:Linear",))
    assert lock_of(project, "layers").history("Linear")[1].schema.digest == line[1].digest
    assert [*lock_of(project).lines] == ["my.state:Moments", "my.state:Train"]
    assert lock_of(project).lines["my.state:Train"].last == 2  # what is stored is as it was
    assert run("check")[0] == 0


MOVES = '\nsplit = migration(Linear, {}, moves=[Rule("kernel", "weight")])\n'
SPLIT = STATE.replace("kernel:", "weight:") + MOVES.format(1)
FUNCTION = "\n@migration(Train, 1)\ndef rescale(old):\n    return {**old, 'step': old['step'] * 2}\n"


def test_a_migration_is_recorded_with_the_revision_that_it_leads_to(project: Path, run: Run) -> None:
    write(project, SPLIT)
    assert run("lock")[0] == 0
    lock = lock_of(project)
    released = lock.lines["my.state:Linear"][2].migration
    assert released is not None
    assert released.kind == "moves"
    assert lock.lines["my.state:Train"][2].migration is None
    assert run("check")[0] == 0


def test_another_meaning_is_a_revision_though_nothing_else_changed(project: Path, run: Run) -> None:
    write(project, STATE + FUNCTION)
    assert "class TrainV2(" not in (project / "my" / "state_treaty_history.py").read_text()
    run("generate")
    assert "class TrainV2(" in (project / "my" / "state_treaty_history.py").read_text()
    assert findings(run("check")[1]) == [
        "my/state.py:21: PROCESS-differs: Train: its declaration differs from revision 1 (by a migration); "
        "run: treaty lock my.state -m '...'"
    ]
    assert run("lock")[1].splitlines()[0] == "Train: revision 2 (by a migration)"
    assert run("check")[0] == 0


def test_a_class_that_reaches_another_meaning_has_a_revision_too(project: Path, run: Run) -> None:
    write(project, STATE + FUNCTION.replace("Train", "Linear").replace("step", "kernel"))
    assert run("lock")[1].splitlines()[:2] == [
        "Linear: revision 2 (by a migration)",
        "Train: revision 2 (through Linear)",
    ]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda text: text.replace("* 2", "* 3"),
            "PROCESS-migration-edited: Train: the migration from revision 1 was edited after revision 2 was locked with it; "
            "undo that and write migration(Train, 2) for what is new, or if it does the same as before: "
            "treaty lock --waive PROCESS-migration-edited:Train:1 --why '...'",
        ),
        (
            lambda text: text.replace(FUNCTION, ""),
            "PROCESS-migration-gone: Train: the migration from revision 1 is gone, which revision 2 was locked with; "
            "restore it: checkpoints of that time need it; "
            "or give up every revision that does, with --orphan",
        ),
        (
            lambda text: text + FUNCTION.replace("1)", "7)").replace("rescale", "later"),
            "PROCESS-migration-unknown: Train: a migration begins at revision 7, which never was: the last is 2; write migration(Train, 2)",
        ),
    ],
)
def test_released_migrations_stay_as_they_were(
    edit: Callable[[str], str], message: str, project: Path, run: Run
) -> None:
    write(project, STATE + FUNCTION)
    run("lock")
    write(project, edit(STATE + FUNCTION))

    code, said = run("check")
    assert code == 1
    assert findings(said) == [f"my/state.py:21: {message}"]
    code, said = run("lock", "-m", "hide it")
    assert code == 2
    assert said == f"error: my/state.py:21: {message}\n"


def test_words_and_annotations_of_a_migration_may_be_edited(project: Path, run: Run) -> None:
    write(project, STATE + FUNCTION)
    run("lock")
    write(project, STATE + FUNCTION.replace("(old):", '(old: "TrainV1") -> "TrainV2":\n    """Twice."""  # now'))
    assert run("check")[0] == 0


def test_a_migration_without_source_is_not_locked_since_no_edit_of_it_would_be_found(project: Path, run: Run) -> None:
    write(project, f"{STATE}\nexec('def begin_anew(old): return old')\nmigration(Train, 1)(begin_anew)\n")
    code, said = run("lock")
    assert code == 2
    assert said == (
        "error: migration(Train, 1): expected a function whose source can be read, so that a later edit is found, "
        "got my.state:begin_anew; write it with def, in a file\n"
    )


def test_a_waiver_carries_its_reason(project: Path, run: Run) -> None:
    write(project, STATE + FUNCTION)
    run("lock")
    write(project, STATE + FUNCTION.replace("* 2", "+ old['step']"))
    _, said = run("lock", "--waive", "PROCESS:Train:1", "--why", "the same sum")
    assert said.splitlines()[0] == "Train: PROCESS of revision 1 is waived: the same sum"
    assert run("check")[0] == 0


def test_a_waiver_of_an_edit_is_none_of_the_next_edit(project: Path, run: Run) -> None:
    write(project, STATE + FUNCTION)
    run("lock")
    write(project, STATE + FUNCTION.replace("* 2", "+ old['step']"))
    assert run("lock", "--waive", "PROCESS-migration-edited:Train:1", "--why", "the same sum")[0] == 0
    write(project, STATE + FUNCTION.replace("* 2", "* 3"))
    (line,) = findings(run("check")[1])
    assert "PROCESS-migration-edited: Train: the migration from revision 1 was edited" in line


def test_a_migration_is_needed_as_long_as_a_revision_of_its_class_or_of_one_above_is(project: Path, run: Run) -> None:
    """Linear means something else from revision 2 on; Train reaches it."""
    step = "\n@migration(Linear, 1)\ndef rescale(old):\n    return {'kernel': old['kernel'] * 2}\n"
    write(project, STATE + step)
    run("lock")
    write(project, STATE)
    assert run("lock", "--orphan", "Linear:1", "--why", "of a test")[0] == 2
    code, said = run("lock", "--orphan", "Linear:1", "--orphan", "Train:1", "--why", "of a test")
    assert code == 0, said
    assert run("check")[0] == 0


def test_a_migration_that_comes_too_late_is_told(project: Path, run: Run) -> None:
    write(project, STATE.replace(KERNEL, KERNEL + BIAS))
    run("lock")
    write(project, STATE.replace(KERNEL, KERNEL + BIAS) + FUNCTION)
    (line,) = findings(run("check")[1])
    assert (
        "Train: a migration from revision 1 was added after revision 2 was locked without one; write migration(Train, 2)"
        in line
    )


def test_two_migrations_for_one_step_are_refused_where_they_stand(project: Path, run: Run) -> None:
    write(project, STATE + FUNCTION + FUNCTION)
    code, said = run("check")
    assert code == 2
    assert (
        "my/state.py:31: migration(Train, 1): there are two, in my.state:rescale (line 27) and my.state:rescale (line 31); "
        in said
    )


def test_a_lock_that_was_edited_is_a_finding(project: Path, run: Run) -> None:
    path = project / "my" / "state_treaty.lock"
    path.write_text(path.read_text().replace("float32", "float16", 1))
    code, said = run("check")
    assert code == 1
    assert said.startswith(
        "my/state_treaty.lock: PROCESS-lock: my.state:Linear revision 1: the entry was edited, or one before it; "
    )
    assert run("generate")[0] == 2
    assert run("lock")[0] == 2


def test_a_lock_that_is_lost_is_missed(project: Path, run: Run) -> None:
    (project / "my" / "state_treaty.lock").unlink()
    message = "expected the lock that my/state_treaty_history.py was generated from, got no such file; restore it "
    assert f"my/state_treaty.lock: PROCESS-lock: {message}" in run("check")[1]
    code, said = run("generate")
    assert code == 2
    assert f"error: my/state_treaty.lock: {message}" in said
    assert (project / "my" / "state_treaty_history.py").exists()


def test_a_lock_of_a_newer_treaty_is_for_a_newer_treaty(project: Path, run: Run) -> None:
    path = project / "my" / "state_treaty.lock"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    code, said = run("check")
    assert code == 2
    assert (
        "error: my/state_treaty.lock: written by a newer Treaty (version 2, this one reads up to 1); upgrade treaty"
        in said
    )


def test_a_history_that_was_edited_is_stale(project: Path, run: Run) -> None:
    path = project / "my" / "state_treaty_history.py"
    path.write_text(path.read_text().replace("Array2", "Array1"))
    assert run("check")[1].startswith("my/state_treaty_history.py: stale or edited; run: treaty generate my.state\n")
    (finding,) = check("my.state", Project.find(project))
    assert (finding.rule, finding.message, finding.fix) == ("FRESH", "stale or edited", "run: treaty generate my.state")


def test_findings_say_what_other_tools_need(project: Path, run: Run) -> None:
    write(project, STATE.replace("step: Int32", "step: Float32"))
    found = [one for one in check("my.state", Project.find(project)) if one.rule == "PROCESS"]
    assert [(one.path, one.line, one.cls, one.fix) for one in found] == [
        ("my/state.py", 21, "Train", "run: treaty lock my.state -m '...'")
    ]


def test_the_lock_follows_a_module_that_says_where_its_code_lives(project: Path, run: Run) -> None:
    write(project, STATE + '\n__treaty__ = "my.made"\n')
    assert run("lock")[0] == 0
    assert sorted(path.name for path in (project / "my").glob("*")) == [
        "__init__.py",
        "made.lock",
        "made.py",
        "made_history.py",
        "state.py",
    ]
    assert run("check")[0] == 0
