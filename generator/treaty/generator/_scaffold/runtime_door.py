"""What only the runtime knows: what lies in trees and in checkpoints. It is imported as generated code is, by name, when needed."""

import importlib
from typing import Any, Final

from treaty.schema.outline import Outline

_LIVE: Final = "treaty.runtime._live.outline"
_CHECKPOINT: Final = "treaty.runtime._checkpoint.outline"
_ARGUMENTS: Final = "treaty.runtime.commands.arguments"


def outline_of(tree: object) -> Outline:
    found: Outline = importlib.import_module(_LIVE).outline_of(tree)
    return found


def imported_object(target: str, option: str) -> Any:
    """An object of the user's, by `pkg.mod:name`."""
    return importlib.import_module(_ARGUMENTS).named(target, option)


def filled(tree: object) -> Any:
    """A tree like one that was traced, with arrays of some numbers."""
    return importlib.import_module(_LIVE).filled(tree)


def outline_of_checkpoint(path: str) -> Outline:
    found: Outline = importlib.import_module(_CHECKPOINT).outline_of_checkpoint(path)
    return found


def public(name: str) -> Any:
    """A public name of the runtime."""
    return getattr(importlib.import_module("treaty.runtime"), name)
