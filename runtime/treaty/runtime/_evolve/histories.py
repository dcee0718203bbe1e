"""The histories of classes: what `treaty generate` wrote of a module's lock, imported when an old checkpoint is met."""

import importlib
import importlib.util
import sys
from functools import cache
from typing import TYPE_CHECKING

from treaty.runtime._errors import CodecError
from treaty.schema import SchemaError
from treaty.schema.modules import generated_name

if TYPE_CHECKING:
    from treaty.schema.evolution.history import History
    from treaty.schema.evolution.lock import Lock

_histories: dict[str, "History"] = {}


def history_of(symbol: str) -> "History | None":
    """The history of a class by its symbol; None where its module has no lock."""
    lock = lock_of(symbol.partition(":")[0])
    if lock is None:
        return None
    from treaty.schema.evolution.migrations import steps_of

    known = _histories.get(symbol)
    if known is None or known.steps != steps_of(symbol):  # a module with more migrations may have been imported since
        known = lock.history(symbol, steps_of(symbol))
        if known is not None:
            _histories[symbol] = known
    return known


def lock_of(module: str) -> "Lock | None":
    """The lock of a module that is imported; None where it has none."""
    return _lock(module) if has_history(module) else None


def has_history(module: str) -> bool:
    """Whether a module has a lock; cheap where it has none."""
    return module in sys.modules and _history_name(module) is not None


@cache
def _history_name(module: str) -> str | None:
    name = f"{generated_name(module)}_history"
    try:
        return name if importlib.util.find_spec(name) is not None else None
    except (ImportError, ValueError):
        return None


@cache
def _lock(module: str) -> "Lock":
    from treaty.schema.evolution.lock_json import parse

    name = _history_name(module)
    assert name is not None  # whoever asks knows that there is one
    text: object = getattr(importlib.import_module(name), "LOCK", None)
    if not isinstance(text, str):
        raise CodecError(f"expected the history of {module}, got another module {name}; run: treaty generate {module}")
    try:
        return parse(text, name)
    except SchemaError as error:
        raise CodecError(f"{error}; run: treaty generate {module}") from None
