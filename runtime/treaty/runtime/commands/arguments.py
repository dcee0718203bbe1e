"""Arguments that several commands take: a class by the name of its module, and sizes of dims."""

import importlib
import os
import sys
from types import ModuleType
from typing import Any, Final

from treaty.schema import TreatyError

_DIGITS: Final = 18  # of a size; more than any array has


def named(where: str, option: str) -> Any:
    """An object by the name of its module and its own."""
    module, _, name = where.partition(":")
    if not name:
        raise TreatyError(f"{option}: expected PKG.MODULE:NAME, got {where!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    found = imported(module, option)
    try:
        return getattr(found, name)
    except AttributeError as error:
        raise TreatyError(f"{option}: {error}") from error


def imported(module: str, option: str) -> ModuleType:
    """A module of the user's."""
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # it may raise anything
        what = str(error) if isinstance(error, (ImportError, AttributeError)) else f"{type(error).__name__}: {error}"
        raise TreatyError(f"{option}: {what}") from error


def size_of(text: str) -> tuple[str, int]:
    name, _, size = text.partition("=")
    if not name or not size.isdecimal() or len(size) > _DIGITS:
        raise TreatyError(f"--dim: expected NAME=SIZE, got {text!r}")
    return name, int(size)
