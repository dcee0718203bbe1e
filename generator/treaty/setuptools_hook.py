"""The setuptools hook: a `build` sub-command for projects with `[tool.treaty] modules` in their pyproject.toml.

Outside `treaty.generator` for its cost: setuptools imports this in every build of an environment that has Treaty.
"""

import os
import tomllib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from setuptools.command.build import build
from setuptools.errors import SetupError

if TYPE_CHECKING:
    from treaty.generator._generate import Output

    class Command:
        """What is used of setuptools' class, which ships no types."""

        distribution: "Distribution"

        def get_finalized_command(self, command: str) -> Any: ...

else:
    from setuptools import Command


class Distribution(Protocol):
    src_root: str | None
    cmdclass: dict[str, type[Any]]


def finalize(distribution: Distribution) -> None:
    """Add `build_treaty` to the project's `build`; do nothing for a project that does not ask for it.

    Not through `distribution.cmdclass`: a cmdclass in pyproject.toml would replace it, one in setup.cfg be ignored.
    """
    if not _asks(distribution):
        return
    for command in (build, distribution.cmdclass.get("build", build)):
        if _SUB_COMMAND not in command.sub_commands:
            command.sub_commands = [*command.sub_commands, _SUB_COMMAND]


class build_treaty(Command):
    """Writes the generated modules over what `build_py` copied; into the source tree for editable installs.

    Not a subclass of `build_py`: setuptools turns the errors of those into warnings in editable installs.
    """

    description = "generate the checkpoint code of [tool.treaty] modules"
    user_options: tuple[tuple[str, str, str], ...] = ()
    editable_mode = False

    def initialize_options(self) -> None: ...

    def finalize_options(self) -> None: ...

    def run(self) -> None:
        from treaty.generator._write import write_file

        for output in self._outputs:
            write_file(output.path if self.editable_mode else Path(self.build_lib, output.name), output.text)

    def get_source_files(self) -> list[str]:
        """Sdists have the schemas already; with the locks, a wheel is built from these."""
        from treaty.generator._build import lock_files

        return [os.path.relpath(path) for path in lock_files(_root(self.distribution))]

    def get_outputs(self) -> list[str]:
        return [os.path.join(self.build_lib, output.name) for output in self._outputs]

    def get_output_mapping(self) -> dict[str, str]:
        """For strict editable installs: which file of the tree stands for which of the wheel."""
        if not self.editable_mode:
            return {}
        return {os.path.join(self.build_lib, output.name): os.path.relpath(output.path) for output in self._outputs}

    @property
    def build_lib(self) -> str:
        return str(self.get_finalized_command("build").build_lib)

    @cached_property
    def _outputs(self) -> "list[Output]":
        from treaty.generator._build import build_outputs
        from treaty.schema import TreatyError

        try:
            return build_outputs(_root(self.distribution))
        except TreatyError as error:
            raise SetupError(str(error)) from error  # setuptools prints these without a traceback


def _asks(distribution: Distribution) -> bool:
    """Whether the project lists modules. A file that cannot be read is for others to complain about."""
    try:
        with open(_root(distribution) / "pyproject.toml", "rb") as file:
            settings = tomllib.load(file)
    except (OSError, ValueError):
        return False
    match settings:
        case {"tool": {"treaty": {"modules": modules}}}:
            return bool(modules)
    return False


def _root(distribution: Distribution) -> Path:
    return Path(distribution.src_root or os.curdir).resolve()


# The condition is asked again when a build runs: the class is shared by every distribution of the process.
_SUB_COMMAND = ("build_treaty", lambda command: _asks(command.distribution))
