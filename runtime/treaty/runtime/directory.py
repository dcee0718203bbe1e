"""Checkpoints in directories, by name: what `treaty.runtime` has for every format, and a `save` that asks for no suffix."""

from typing import TYPE_CHECKING, Final

from treaty.schema._lazy_names import lazy_names

_HOMES: Final = {
    "._checkpoint.inspect": ("inspect",),
    "._checkpoint.restore": ("restore",),
    "._checkpoint.save_directory": ("save", "save_async"),
    "._checkpoint.verify": ("verify",),
    "._process.background": ("SaveHandle",),
    ".formats.shared.outcomes": ("Inspection", "Verified"),
}

if TYPE_CHECKING:
    from treaty.runtime._checkpoint.inspect import inspect as inspect
    from treaty.runtime._checkpoint.restore import restore as restore
    from treaty.runtime._checkpoint.save_directory import save as save
    from treaty.runtime._checkpoint.save_directory import save_async as save_async
    from treaty.runtime._checkpoint.verify import verify as verify
    from treaty.runtime._process.background import SaveHandle as SaveHandle
    from treaty.runtime.formats.shared.outcomes import Inspection as Inspection
    from treaty.runtime.formats.shared.outcomes import Verified as Verified
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
