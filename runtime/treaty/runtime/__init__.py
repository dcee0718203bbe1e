"""Run time: values to state dicts, bytes and checkpoints and back, checked against the generated code of their classes.

Names are imported when first used, so that looking into a checkpoint does not import JAX.
"""

from typing import TYPE_CHECKING, Final

from treaty.schema._lazy_names import lazy_names

_HOMES: Final = {
    "_checkpoint.inspect": ("inspect",),
    "_checkpoint.plan": ("plan",),
    "_checkpoint.remove": ("remove",),
    "_checkpoint.restore": ("restore",),
    "_checkpoint.save": ("save", "save_async"),
    "_checkpoint.verify": ("verify",),
    "_devices.shardings": ("shardings",),
    "_errors": (
        "CodecError",
        "ConversionError",
        "CorruptCheckpointError",
        "IncompleteCheckpointError",
        "InvalidArgumentError",
        "KeyMapError",
        "LeafError",
        "MigrationError",
        "Mismatch",
        "MissingCheckpointError",
        "NewerFormatError",
        "StateMismatchError",
        "StorageError",
        "TreatyError",
    ),
    "_live.from_live": ("from_live",),
    "_live.to_live": ("to_live", "update_live"),
    "_manager.decisions": ("Decision",),
    "_manager.listing": ("StepVerdict",),
    "_manager.manager": ("CheckpointManager",),
    "_process.background": ("SaveHandle",),
    "_process.watching": ("Transfer", "watch"),
    "_report.report": ("report",),
    "_restore.preflight": ("Plan",),
    "_state.abstract": ("abstract", "nbytes"),
    "_state.state_dict": ("explain", "from_state_dict", "to_state_dict"),
    "_state.validate": ("validate",),
    "formats.msgpack.instances": ("from_bytes", "to_bytes"),
    "formats.shared.outcomes": ("Inspection", "Verified"),
}

if TYPE_CHECKING:
    from treaty.runtime._checkpoint.inspect import inspect as inspect
    from treaty.runtime._checkpoint.plan import plan as plan
    from treaty.runtime._checkpoint.remove import remove as remove
    from treaty.runtime._checkpoint.restore import restore as restore
    from treaty.runtime._checkpoint.save import save as save
    from treaty.runtime._checkpoint.save import save_async as save_async
    from treaty.runtime._checkpoint.verify import verify as verify
    from treaty.runtime._devices.shardings import shardings as shardings
    from treaty.runtime._errors import CodecError as CodecError
    from treaty.runtime._errors import ConversionError as ConversionError
    from treaty.runtime._errors import CorruptCheckpointError as CorruptCheckpointError
    from treaty.runtime._errors import IncompleteCheckpointError as IncompleteCheckpointError
    from treaty.runtime._errors import InvalidArgumentError as InvalidArgumentError
    from treaty.runtime._errors import KeyMapError as KeyMapError
    from treaty.runtime._errors import LeafError as LeafError
    from treaty.runtime._errors import MigrationError as MigrationError
    from treaty.runtime._errors import Mismatch as Mismatch
    from treaty.runtime._errors import MissingCheckpointError as MissingCheckpointError
    from treaty.runtime._errors import NewerFormatError as NewerFormatError
    from treaty.runtime._errors import StateMismatchError as StateMismatchError
    from treaty.runtime._errors import StorageError as StorageError
    from treaty.runtime._errors import TreatyError as TreatyError
    from treaty.runtime._live.from_live import from_live as from_live
    from treaty.runtime._live.to_live import to_live as to_live
    from treaty.runtime._live.to_live import update_live as update_live
    from treaty.runtime._manager.decisions import Decision as Decision
    from treaty.runtime._manager.listing import StepVerdict as StepVerdict
    from treaty.runtime._manager.manager import CheckpointManager as CheckpointManager
    from treaty.runtime._process.background import SaveHandle as SaveHandle
    from treaty.runtime._process.watching import Transfer as Transfer
    from treaty.runtime._process.watching import watch as watch
    from treaty.runtime._report.report import report as report
    from treaty.runtime._restore.preflight import Plan as Plan
    from treaty.runtime._state.abstract import abstract as abstract
    from treaty.runtime._state.abstract import nbytes as nbytes
    from treaty.runtime._state.state_dict import explain as explain
    from treaty.runtime._state.state_dict import from_state_dict as from_state_dict
    from treaty.runtime._state.state_dict import to_state_dict as to_state_dict
    from treaty.runtime._state.validate import validate as validate
    from treaty.runtime.formats.msgpack.instances import from_bytes as from_bytes
    from treaty.runtime.formats.msgpack.instances import to_bytes as to_bytes
    from treaty.runtime.formats.shared.outcomes import Inspection as Inspection
    from treaty.runtime.formats.shared.outcomes import Verified as Verified
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
