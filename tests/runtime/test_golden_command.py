"""`treaty golden`, run as a user runs it, in a small project of its own."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.user_project import fail, run, succeed

FIRST = """\
from typing import Annotated

from jax import Array
from jaxtyping import Float32, Int32

from treaty.schema import Dims, Length, state


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Model:
    step: Int32[Array, ""]
    layers: Annotated[tuple[Linear, ...], Length("n_layers"), Dims(d_in="d_model", d_out="d_model")]
"""
SECOND = """\
from typing import Annotated, Any

from jax import Array
from jaxtyping import Float32, Int32

from treaty.schema import Dims, Length, field, migration, state


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    offset: Float32[Array, "d_out"] = field(aliases=("bias",))


@migration(Linear, 1)
def halved(old: Any) -> Any:
    return {"kernel": old["kernel"] / 2, "offset": old["bias"]}


@state
class Model:
    step: Int32[Array, ""]
    layers: Annotated[tuple[Linear, ...], Length("n_layers"), Dims(d_in="d_model", d_out="d_model")]
    note: str = "none"
"""
GOLDEN = Path("tests", "golden")
TEST = GOLDEN / "test_golden_my_state.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "__init__.py").touch()
    (tmp_path / "my" / "state.py").write_text(FIRST)
    (tmp_path / "pyproject.toml").write_text('[tool.treaty]\nmodules = ["my.state"]\n')
    return tmp_path


def declare(project: Path, text: str) -> None:
    (project / "my" / "state.py").write_text(text)
    succeed("treaty", "lock", cwd=project)


def files(folder: Path) -> dict[str, str]:
    """Every file by what it holds."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def replay(project: Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TEST, cwd=project)


def test_checkpoints_of_every_revision_are_added_and_replayed_for_ever(project: Path) -> None:
    declare(project, FIRST)
    assert succeed("treaty", "golden", cwd=project) == (
        f"Linear: added revision 1\nModel: added revision 1\nwrote {TEST}\n"
    )
    before = files(project / GOLDEN / "golden-my.state")
    names = {name.split("/")[1] for name in before if name.startswith("Model-1/")}
    assert names == {
        "index.json", "treaty", "checkpoint.msgpack", "checkpoint.safetensors", "checkpoint.npz", "orbax"
    }  # fmt: skip

    declare(project, SECOND)
    assert succeed("treaty", "golden", cwd=project) == (
        "Linear: added revision 2; replayed revision 1\nModel: added revision 2; replayed revision 1\n"
    )
    after = files(project / GOLDEN / "golden-my.state")
    assert {name: after[name] for name in before if not name.endswith("index.json")} == {
        name: digest for name, digest in before.items() if not name.endswith("index.json")
    }
    restored = json.loads((project / GOLDEN / "golden-my.state" / "Model-1" / "index.json").read_text())["restored"]
    assert {number: leaves.get("$.note") for number, leaves in restored.items()} == {"1": None, "2": "str 'none'"}
    assert "20 passed" in replay(project).stdout

    source = project / "my" / "state.py"
    source.write_text(SECOND.replace("/ 2", "/ 4"))
    assert "10 failed, 10 passed" in replay(project).stdout
    done = run("treaty", "golden", cwd=project)
    assert done.returncode == 1
    assert "error: Linear-1/treaty: expected float32[2, 3] " in done.stdout
    assert "error: Model-1/checkpoint.npz: expected float32[3, 3] " in done.stdout
    assert files(project / GOLDEN / "golden-my.state") == after


def test_check_writes_nothing_and_says_what_is_missing(project: Path) -> None:
    declare(project, FIRST)
    assert fail("treaty", "golden", "--check", cwd=project) == (
        "Linear: missing revision 1 as treaty, msgpack, safetensors, npz, orbax\n"
        "Model: missing revision 1 as treaty, msgpack, safetensors, npz, orbax\n"
        "run: treaty golden my.state\n"
    )
    assert not (project / GOLDEN).exists()
    succeed("treaty", "golden", "my/state.py", "-o", "elsewhere", cwd=project)
    assert succeed("treaty", "golden", "--check", "-o", "elsewhere", cwd=project) == (
        "Linear: replayed revision 1\nModel: replayed revision 1\n"
    )


def test_what_is_not_locked_is_not_replayed(project: Path) -> None:
    assert fail("treaty", "golden", cwd=project) == (
        "error: expected locked classes, got none in my.state; run: treaty lock my.state\n"
    )
    declare(project, FIRST)
    succeed("treaty", "golden", cwd=project)
    (project / "my" / "state.py").write_text(FIRST + '    note: str = "none"\n')
    succeed("treaty", "generate", cwd=project)
    done = run("treaty", "golden", cwd=project)
    assert (done.returncode, done.stdout) == (
        1,
        "Linear: replayed revision 1\nerror: Model: expected a declaration that is locked, got one that is not; "
        "run: treaty lock my.state, then: treaty golden my.state\n",
    )
    assert "run: treaty lock my.state" in replay(project).stdout


def test_a_class_that_is_not_declared_any_more_is_for_the_lock_to_settle(project: Path) -> None:
    declare(project, FIRST)
    succeed("treaty", "golden", cwd=project)
    source = project / "my" / "state.py"
    for changed in (FIRST[: FIRST.index("@state\nclass Model")], FIRST.replace("class Model", "class Net")):
        source.write_text(changed)
        for command in (["golden"], ["golden", "--check"]):
            assert fail("treaty", *command, cwd=project) == (
                "error: Model: expected a declaration of what is locked, got none in my.state; "
                "run: treaty lock my.state, which asks what became of it\n"
            )
    succeed("treaty", "lock", "--moved", "Model=Net", cwd=project)
    assert "Net: replayed revision 1" in succeed("treaty", "golden", cwd=project)
    source.write_text(FIRST[: FIRST.index("@state\nclass Model")])
    succeed("treaty", "lock", "--orphan", "Net:all", "--why", "no longer trained", cwd=project)
    assert succeed("treaty", "golden", cwd=project) == f"Linear: replayed revision 1\nwrote {TEST}\n"
    assert (project / GOLDEN / "golden-my.state" / "Model-1").exists()
    assert "5 passed" in replay(project).stdout


def test_a_module_has_to_be_named_or_listed(tmp_path: Path) -> None:
    assert "no modules: name them (treaty golden my.state)" in fail("treaty", "golden", cwd=tmp_path)
    assert fail("treaty", "golden", "none", cwd=tmp_path) == "error: MODULE: No module named 'none'\n"


def test_a_test_that_someone_else_wrote_is_not_overwritten(project: Path) -> None:
    declare(project, FIRST)
    (project / GOLDEN).mkdir(parents=True)
    (project / TEST).write_text("# mine\n")
    assert fail("treaty", "golden", cwd=project).splitlines()[-1] == (
        f"error: expected a test that treaty golden wrote, got another at {project / TEST}; move it"
    )
    assert (project / TEST).read_text() == "# mine\n"
