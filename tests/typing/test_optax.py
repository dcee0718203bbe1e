"""What mypy --strict says of optax in a project that has set up nothing, and with what docs/static-checking.md asks for."""

import contextlib
import re
from pathlib import Path

import pytest
from mypy import api

from tests import forked
from tests.typing.conftest import PAGE

LIBRARY = """
from typing import Annotated
from jax import Array
from jaxtyping import Float32
from treaty.schema import Dims, state
from treaty.schema.library.optax import AdamW, EmptyState, to_optax

@state
class Params:
    kernel: Float32[Array, "d_in d_out"]

@state
class TrainState:
    params: Annotated[Params, Dims(...)]
    opt: Annotated[AdamW[Params, EmptyState], Dims(...)]

def resumed(train: TrainState) -> object:
    return to_optax(train.opt)
"""

FROM_INIT = """
from typing import Annotated
import optax
from library import Params
from treaty.schema import Dims, FromInit, state

def make_optimizer() -> optax.GradientTransformation:
    return optax.adamw(1e-3)

@state
class TrainState:
    params: Annotated[Params, Dims(...)]
    opt: Annotated[optax.OptState, FromInit(make_optimizer, of="params")]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "from_init.py").write_text(FROM_INIT)
    forked.run("treaty", "generate", "library.py", "from_init.py", cwd=tmp_path).check_returncode()
    return tmp_path


def test_an_override_is_needed_where_optax_is_imported_and_nowhere_else(
    project: Path, pytestconfig: pytest.Config
) -> None:
    assert pytestconfig.cache is not None
    cache = pytestconfig.cache.mkdir("mypy-plain")
    (override,) = re.findall(r"^```toml\n(\[\[tool.mypy.overrides.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    settings = "[tool.mypy]\nstrict = true\nexplicit_package_bases = true\n"

    def mypy(names: list[str], more: str) -> str:
        (project / "pyproject.toml").write_text(f"{settings}\n{more}")
        with contextlib.chdir(project):
            return api.run(["--config-file=pyproject.toml", f"--cache-dir={cache}", *names])[0]

    library, all_files = ["library.py", "library_treaty.py"], sorted(path.name for path in project.glob("*.py"))
    assert mypy(library, "") == "Success: no issues found in 2 source files\n"
    assert len(re.findall(r'error: Skipping analyzing "optax".*\[import-untyped\]', mypy(all_files, ""))) == 2
    assert mypy(all_files, override) == "Success: no issues found in 4 source files\n"
