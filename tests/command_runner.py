"""Click's runner of commands, which keeps standard error apart in whatever version of click: before 8.2 it had to be asked to."""

from importlib.metadata import version
from typing import Any, Final

from click.testing import CliRunner
from packaging.version import Version

APART: Final[dict[str, Any]] = {} if Version(version("click")) >= Version("8.2") else {"mix_stderr": False}


def command_runner() -> CliRunner:
    return CliRunner(**APART)
