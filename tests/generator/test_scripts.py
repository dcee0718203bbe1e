"""Schemas beside the script that uses them, in it, and in other layouts: a path is generated as the module that programs import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked

SCHEMA = """
from jax import Array
from jaxtyping import Float32
from treaty.schema import state


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
"""

USE = """
import numpy as np
from treaty.runtime import from_state_dict
print(from_state_dict(Linear, {"kernel": np.ones((2, 3), "f4")}).kernel.shape)
"""


def treaty(cwd: Path, *args: str | Path) -> "subprocess.CompletedProcess[str]":
    return forked.run("treaty", *args, cwd=cwd, env={**os.environ, "COLUMNS": "100"})


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A project whose script lies in a folder of its own, and which says nothing of that in pyproject.toml."""
    folder = tmp_path / "project" / "scripts"
    folder.mkdir(parents=True)
    (folder.parent / "pyproject.toml").write_text("[project]\nname = 'p'\n")
    (folder / "state.py").write_text(SCHEMA)
    (folder / "train.py").write_text(f"from state import Linear\n{USE}")
    return folder


@pytest.mark.parametrize("where", ["the project", "the folder", "beside the project", "absolute"])
def test_a_path_is_generated_as_the_module_that_a_script_beside_it_imports(scripts: Path, where: str) -> None:
    (scripts.parents[1] / "other").mkdir()
    cwd, path = {
        "the project": (scripts.parent, "scripts/state.py"),
        "the folder": (scripts, "state.py"),
        "beside the project": (scripts.parents[1] / "other", "../project/scripts/state.py"),
        "absolute": (scripts.parents[1], str(scripts / "state.py")),
    }[where]

    done = treaty(cwd, "generate", path)

    assert done.returncode == 0, done.stderr
    assert "import state as _state" in (scripts / "state_treaty.py").read_text()
    assert treaty(cwd, "check", path).stdout == "1 generated module fresh\n"
    run = forked.run("python", scripts / "train.py", cwd=cwd)
    assert run.stdout == "(2, 3)\n", run.stderr


def test_a_path_in_a_namespace_package_is_generated_as_others_import_it(scripts: Path) -> None:
    scripts.rename(scripts.parent / "pkg")
    project = scripts.parent
    (project / "pkg" / "train.py").write_text(f"from .state import Linear\n{USE}")

    assert treaty(project, "generate", "pkg/state.py").stdout == "wrote pkg/state_treaty.py\n"

    assert "import pkg.state as _state" in (project / "pkg" / "state_treaty.py").read_text()
    run = forked.run("python", "-m", "pkg.train", cwd=project)
    assert run.stdout == "(2, 3)\n", run.stderr


@pytest.mark.parametrize("imports", ["", "from scripts.state import Linear"])
def test_a_path_that_can_be_two_modules_is_refused_and_named(scripts: Path, imports: str) -> None:
    (scripts / "train.py").write_text(f"{'from state import Linear' if imports else ''}")
    (scripts.parent / "evaluate.py").write_text(imports)
    project = scripts.parent

    done = treaty(project, "generate", "scripts/state.py")

    why = "files of this project import it as both" if imports else "no file of this project imports it yet"
    assert done.returncode == 2
    assert done.stderr == (
        f"error: scripts/state.py: expected one module, got a file that is scripts.state or state, and {why}; say in "
        'pyproject.toml where programs import it from: [tool.treaty] src = ["."] for scripts.state, '
        'src = ["scripts"] for state\n'
    )


def test_what_was_generated_before_decides_or_pyproject_does(scripts: Path) -> None:
    project = scripts.parent
    assert treaty(project, "generate", "scripts/state.py").returncode == 0
    (scripts / "train.py").unlink()
    assert treaty(project, "generate", "scripts/state.py").stdout == "fresh scripts/state_treaty.py\n"
    (scripts / "state_treaty.py").unlink()
    (project / "pyproject.toml").write_text('[tool.treaty]\nsrc = ["."]\n')
    assert treaty(project, "generate", "scripts/state.py").returncode == 0
    assert "import scripts.state as _state" in (scripts / "state_treaty.py").read_text()
    (project / "pyproject.toml").write_text('[tool.treaty]\nmodules = ["scripts/state.py"]\nsrc = ["scripts"]\n')
    assert treaty(scripts, "generate").returncode == 0
    assert "import state as _state" in (scripts / "state_treaty.py").read_text()


def test_a_path_belongs_to_the_nearest_project(scripts: Path) -> None:
    """Also one below another: what is around it is where its programs run."""
    above = scripts.parents[1]
    (above / "pyproject.toml").write_text("")
    (scripts.parent / "src" / "pkg").mkdir(parents=True)
    (scripts.parent / "src" / "pkg" / "state.py").write_text(SCHEMA)

    done = treaty(above, "generate", "project/src/pkg/state.py")

    assert done.returncode == 0, done.stderr
    assert "import pkg.state as _state" in (scripts.parent / "src" / "pkg" / "state_treaty.py").read_text()
    other = above / "other"
    other.mkdir()
    (other / "pyproject.toml").write_text("")
    (other / "x.py").write_text(SCHEMA)
    both = treaty(above, "generate", "other/x.py", "project/scripts/state.py")
    assert both.stderr == (
        "error: project/scripts/state.py: expected a file of the project in other, got one of that in project; "
        "name the files of each project by themselves\n"
    )


MAIN = f"""
{SCHEMA}

@state
class Model:
    layer: Annotated[Linear, Dims(...)]


if __name__ == "__main__":
    import pickle, sys
    import jax, jax.numpy as jnp
    from treaty.runtime import restore, save

    model = Model(layer=Linear(kernel=jnp.ones((2, 3))))
    assert len(jax.tree.leaves(model)) == 1
    save(sys.argv[1], model)
    back = restore(sys.argv[1], model)
    assert type(back) is Model and type(back.layer) is Linear
    assert pickle.loads(pickle.dumps(type(back))) is Model
    import train
    assert train.Model is Model, "imported twice"
    import train_treaty
    assert type(train_treaty.model_from_state_dict({{"layer": {{"kernel": jnp.ones((2, 3))}}}})) is Model
    print(type(back).__module__, back.layer.kernel.shape)
""".replace("import state\n", "import Dims, state\n").replace(
    "from jax import", "from typing import Annotated\nfrom jax import"
)


def test_a_schema_in_the_script_that_is_run_finds_its_code(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MAIN)
    generated = treaty(tmp_path, "generate", "train.py")
    assert generated.stdout == "wrote train_treaty.py\n", generated.stderr

    for command in (["train.py"], ["-m", "train"]):  # real interpreters: what __main__ is, is what this is about
        done = subprocess.run(
            [sys.executable, *command, f"{tmp_path}/{command[0]}-run"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.stdout == "__main__ (2, 3)\n", done.stderr


def test_other_programs_restore_what_the_script_saved(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MAIN)
    treaty(tmp_path, "generate", "train.py")
    assert forked.run("python", "train.py", "saved", cwd=tmp_path).stdout == "__main__ (2, 3)\n"
    code = "from treaty.runtime import inspect, restore; from train import Model; print(restore('saved', Model).layer.kernel.shape)"

    done = forked.run("python", "-c", code, cwd=tmp_path)

    assert done.stdout == "(2, 3)\n", done.stderr


def test_a_script_without_code_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{SCHEMA}\n{USE}")

    done = forked.run("python", "train.py", cwd=tmp_path)

    assert done.stderr.splitlines()[-1] == (
        "treaty.runtime._errors.CodecError: no generated code for __main__:Linear; run: treaty generate train.py, or call "
        "treaty.generator.load(Linear) first"
    )


def test_a_script_that_is_imported_as_well_is_told_so(tmp_path: Path) -> None:
    """Before its first class is declared: from then on, the import is the script itself."""
    (tmp_path / "train.py").write_text(
        f"import other\n{SCHEMA}\nif __name__ == '__main__':\n    {USE.strip().replace(chr(10), chr(10) + '    ')}\n"
    )
    (tmp_path / "other.py").write_text("import train\n")
    treaty(tmp_path, "generate", "train.py")

    done = forked.run("python", "train.py", cwd=tmp_path)

    assert done.stderr.splitlines()[-1] == (
        "treaty.runtime._errors.CodecError: expected one module train, got two: the script that is run, and train, which something "
        "imported before train.py declared Linear; move the classes into a module that both import, or the import below the classes"
    )


def test_a_script_may_make_instances_before_it_has_declared_all_classes(tmp_path: Path) -> None:
    late = f"{SCHEMA}\nimport jax\nimport jax.numpy as jnp\nfirst = Linear(kernel=jnp.ones((2, 3)))\n"
    last = "\n@state\nclass Late:\n    kernel: Float32[Array, 'd']\n\nprint(len(jax.tree.leaves(first)))\n"
    (tmp_path / "train.py").write_text(late + last)
    assert treaty(tmp_path, "generate", "train.py").returncode == 0

    done = forked.run("python", "train.py", cwd=tmp_path)

    assert done.stdout == "1\n", done.stderr


def test_a_process_that_the_script_spawns_finds_the_code(tmp_path: Path) -> None:
    main = "\nif __name__ == '__main__':\n    import multiprocessing, jax.numpy as jnp\n    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
    work = "\ndef work(model):\n    from treaty.runtime import to_bytes\n    return len(to_bytes(model))\n"
    (tmp_path / "train.py").write_text(
        f"{SCHEMA}{work}{main}        print(pool.apply(work, (Linear(kernel=jnp.ones((2, 3))),)))\n"
    )
    assert treaty(tmp_path, "generate", "train.py").returncode == 0

    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True)

    assert done.stdout == "49\n", done.stderr
