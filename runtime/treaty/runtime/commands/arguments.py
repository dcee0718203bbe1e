"""Arguments that several commands take: checkpoints, parts of them, classes by the names of their modules, sizes of dims."""

import functools
import importlib
import os
import re
import sys
from types import ModuleType
from typing import Any, Final

import click

from treaty.schema import TreatyError

_STEP: Final = re.compile(r"(?:.*_)?([0-9]{1,18})(?:-r[0-9]+)?")  # as Treaty's and Orbax's managers name them
_OPTIONS: Final = {"at": "--at", "cast": "--cast", "dims": "--dim", "revision": "--revision"}
_KEYWORD: Final = re.compile(rf"(?<![\w.'\"\[/-])({'|'.join(_OPTIONS)})=(\{{[^{{}}]*\}}|'[^']*'|[^\s,;:]+)")
_DIGITS: Final = 18  # of a size; more than any array has


class _AnyPath(click.Path):
    """Shells complete it as a path. It is not looked at: whoever reads it says what is wrong with it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value


PATH: Final = _AnyPath()
CHECKPOINT: Final = _AnyPath()  # or a directory of steps; where it is not there, an error tells what is


def paths_given(ctx: click.Context | None) -> list[str]:
    """The checkpoints that a command was given."""
    if ctx is None:
        return []
    given = [ctx.params.get(str(one.name)) for one in ctx.command.params if one.type is CHECKPOINT]
    return [path for one in given if one is not None for path in ([one] if isinstance(one, str) else one)]


def complete_step(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The steps of the directory that was given: those of this machine, since nobody waits for a network at a key."""
    given = paths_given(ctx) or ctx.args  # where the option has no value yet, arguments are not parsed
    folders = [path for path in given if "://" not in path and os.path.isdir(path)]
    found = (_STEP.fullmatch(name) for folder in folders for name in os.listdir(folder))
    steps = sorted({int(match[1]) for match in found if match})
    return [text for text in map(str, steps) if text.startswith(incomplete)]


def complete_format(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from treaty.runtime.formats.table import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


def named(where: str, option: str) -> Any:
    """An object by the name of its module and its own."""
    module, _, name = where.partition(":")
    if not name:
        raise TreatyError(f"{option}: expected PKG.MODULE:NAME, got {where!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    found = imported(module, option)
    try:
        return functools.reduce(getattr, name.split("."), found)
    except AttributeError as error:
        from treaty.schema._nearest import did_you_mean, near_names

        near = near_names(name, [one for one in vars(found) if not one.startswith("_")])
        raise TreatyError(f"{option}: {error}{did_you_mean(f'{module}:{one}' for one in near)}") from error


def imported(module: str, option: str) -> ModuleType:
    """A module of the user's."""
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # it may raise anything
        what = str(error) if isinstance(error, (ImportError, AttributeError)) else f"{type(error).__name__}: {error}"
        from treaty.schema._nearest import did_you_mean, near_modules

        near = near_modules(module, error) if isinstance(error, ImportError) else []
        raise TreatyError(f"{option}: {what}{did_you_mean(near)}") from error


def size_of(text: str) -> tuple[str, int]:
    name, _, size = text.partition("=")
    if not name or not size.isdecimal() or len(size) > _DIGITS:
        raise TreatyError(f"--dim: expected NAME=SIZE, got {text!r}")
    return name, int(size)


def cast_of(text: str) -> tuple[str, str]:
    stored, _, wanted = text.partition("=")
    if not stored or not wanted:
        raise TreatyError(f"--cast: expected STORED=WANTED, such as float32=bfloat16, got {text!r}")
    return stored, wanted


def as_options(text: str) -> str:
    """A message that speaks of Python's arguments, `dims={'d': 3}`, for those who have options: `--dim d=3`."""
    return _KEYWORD.sub(_as_option, text)


def _as_option(found: "re.Match[str]") -> str:
    import ast

    option = _OPTIONS[found[1]]
    try:
        value = ast.literal_eval(found[2])
    except (SyntaxError, ValueError):
        return f"{option} {found[2]}"
    if isinstance(value, dict):
        return " ".join(f"{option} {name}={one}" for name, one in value.items())
    return f"{option} {found[2]}"
