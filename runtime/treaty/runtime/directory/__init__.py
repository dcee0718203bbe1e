"""Checkpoints in directories: arrays in TensorStore, small leaves in MessagePack, and a manifest that commits them.

Names are imported when first used: looking into a checkpoint needs neither JAX nor TensorStore.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treaty.runtime.directory._async import SaveHandle as SaveHandle
    from treaty.runtime.directory._async import save as save
    from treaty.runtime.directory._async import save_async as save_async
    from treaty.runtime.directory._inspect import Inspection as Inspection
    from treaty.runtime.directory._inspect import inspect as inspect
    from treaty.runtime.directory._restore import restore as restore
    from treaty.runtime.directory._verify import Verified as Verified
    from treaty.runtime.directory._verify import verify as verify

_HOME: Final = {
    "SaveHandle": "_async",
    "save": "_async",
    "save_async": "_async",
    "Inspection": "_inspect",
    "inspect": "_inspect",
    "restore": "_restore",
    "Verified": "_verify",
    "verify": "_verify",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
