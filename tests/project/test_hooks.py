"""The hooks are loaded in builds of projects that have nothing to do with Treaty: what they do there, and cost."""

import sys
from pathlib import Path

import pytest

from tests.project.user_project import snippet, succeed

# Starts a build in each folder named, as setuptools does; prints the sub-commands and what was imported for them.
SETUPTOOLS = """\
import os, sys
from setuptools import Distribution

for folder in sys.argv[1:]:
    os.chdir(folder)
    distribution = Distribution({"name": "some", "py_modules": ["some"], "script_name": "setup.py"})
    print(os.path.basename(folder), *distribution.get_command_obj("build").get_sub_commands())
assert "treaty.setuptools_hook" in sys.modules, "the hook is not installed, so this proves nothing"
print(*sorted({"jax", "jinja2", "attrs", "numpy", "treaty.generator", "treaty.schema"} & set(sys.modules)))
"""

UNRELATED = {
    "empty": b"",
    "no-table": b'[project]\nname = "some"\n',
    "no-modules": b'[tool.treaty]\nout = "generated"\n',
    "empty-list": b"[tool.treaty]\nmodules = []\n",
    "not-TOML": b"[tool.treaty\n",
    "not-UTF-8": b"[tool.treaty]\nmodules = ['\xff']\n",
    "tool-is-no-table": b"tool = 3\n",
}


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    """A project that lists modules."""
    folder = tmp_path / "asking"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(snippet("toml", "setuptools.build_meta"))
    return folder


def test_setuptools_builds_of_other_projects_are_left_alone(tmp_path: Path) -> None:
    for name, pyproject in UNRELATED.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").write_bytes(pyproject)
    (tmp_path / "no-pyproject").mkdir()
    names = [*UNRELATED, "no-pyproject"]

    printed = succeed(sys.executable, "-c", SETUPTOOLS, *(tmp_path / name for name in names), cwd=tmp_path)

    assert printed.splitlines() == [*(f"{name} build_py" for name in names), ""]


def test_the_command_is_for_the_project_that_asked_and_for_no_later_one(asking: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()

    printed = succeed(sys.executable, "-c", SETUPTOOLS, asking, tmp_path / "other", cwd=tmp_path)

    assert printed.splitlines() == ["asking build_py build_treaty", "other build_py", ""]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '\n[tool.setuptools.cmdclass]\nbuild = "own.Build"\n'),
        ("setup.cfg", "[options]\ncmdclass =\n    build = own.Build\n"),
        ("setup.py", ""),
    ],
)
def test_a_projects_own_command_class_stays_and_gets_the_command_too(file: str, text: str, asking: Path) -> None:
    with (asking / file).open("a") as opened:
        opened.write(text)
    (asking / "own.py").write_text(
        "from setuptools.command.build import build\n\n\nclass Build(build):\n    sub_commands = [*build.sub_commands]\n"
    )
    given = '{"cmdclass": {"build": own.Build}}' if file == "setup.py" else "{}"
    script = f"""\
{"import own" if given != "{}" else ""}
from setuptools import Distribution

distribution = Distribution({given})
distribution.parse_config_files()
build = distribution.get_command_obj("build")
print(type(build).__name__, "build_treaty" in build.get_sub_commands())
"""

    assert succeed(sys.executable, "-c", script, cwd=asking) == "Build True\n"


def test_hatchling_loads_the_hook_without_the_generator(tmp_path: Path) -> None:
    script = """\
import sys
from hatchling.plugin.manager import PluginManager

print(PluginManager().build_hook.get("treaty").__name__)
print(*sorted({"jax", "jinja2", "treaty.generator", "treaty.schema"} & set(sys.modules)))
"""

    assert succeed(sys.executable, "-c", script, cwd=tmp_path) == "TreatyBuildHook\n\n"


def test_hatchling_asks_for_the_runtime_dependencies(tmp_path: Path) -> None:
    # What makes a schema importable in an isolated build.
    (tmp_path / "pyproject.toml").write_text(snippet("toml", "hatchling.build"))
    script = "from hatchling.build import get_requires_for_build_wheel as requires\nprint(*sorted(requires()))"

    assert succeed(sys.executable, "-c", script, cwd=tmp_path) == "jax jaxtyping treaty\n"
