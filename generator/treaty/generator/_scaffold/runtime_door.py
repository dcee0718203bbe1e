"""What only the runtime knows: what lies in trees and in checkpoints. It is imported as generated code is, by name, when needed."""

import importlib
from collections.abc import Mapping
from typing import Any, Final

_HOMES: Final[Mapping[str, str]] = {
    "outline_of": "treaty.runtime._live.outline",  # of a tree: an Outline
    "filled": "treaty.runtime._live.outline",  # a tree like one that was traced, with arrays of some numbers
    "outline_of_checkpoint": "treaty.runtime._checkpoint.outline",  # of a path: an Outline
    "named": "treaty.runtime.commands.arguments",  # an object of the user's, by `pkg.mod:name`
}


def runtime(name: str) -> Any:
    """A function of the runtime: one of these, or else a public one."""
    return getattr(importlib.import_module(_HOMES.get(name, "treaty.runtime")), name)
