"""Golden checkpoints, for the test that `treaty golden` writes: which there are, and whether one restores as it always did."""

from typing import TYPE_CHECKING, Final

from treaty.schema._lazy_names import lazy_names

_HOMES: Final = {
    "._golden.replay": ("Checkpoint", "checkpoints", "differences"),
}

if TYPE_CHECKING:
    from treaty.runtime._golden.replay import Checkpoint as Checkpoint
    from treaty.runtime._golden.replay import checkpoints as checkpoints
    from treaty.runtime._golden.replay import differences as differences
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
