"""Run time: values to state dicts, bytes and files and back, checked against the generated code of their classes.

Names are imported when first used, so that looking into a checkpoint does not import JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treaty.runtime._bytes import from_bytes as from_bytes
    from treaty.runtime._bytes import to_bytes as to_bytes
    from treaty.runtime._checkpoint import restore as restore
    from treaty.runtime._checkpoint import save as save
    from treaty.runtime._checkpoint import save_async as save_async
    from treaty.runtime._errors import CodecError as CodecError
    from treaty.runtime._errors import ConversionError as ConversionError
    from treaty.runtime._errors import CorruptCheckpointError as CorruptCheckpointError
    from treaty.runtime._errors import IncompleteCheckpointError as IncompleteCheckpointError
    from treaty.runtime._errors import KeyMapError as KeyMapError
    from treaty.runtime._errors import LeafError as LeafError
    from treaty.runtime._errors import Mismatch as Mismatch
    from treaty.runtime._errors import MissingCheckpointError as MissingCheckpointError
    from treaty.runtime._errors import NewerFormatError as NewerFormatError
    from treaty.runtime._errors import StateMismatchError as StateMismatchError
    from treaty.runtime._errors import StorageError as StorageError
    from treaty.runtime._errors import TreatyError as TreatyError
    from treaty.runtime._remove import remove as remove
    from treaty.runtime._sharding.shardings import shardings as shardings
    from treaty.runtime._state.abstract import abstract as abstract
    from treaty.runtime._state.abstract import nbytes as nbytes
    from treaty.runtime._state.state_dict import explain as explain
    from treaty.runtime._state.state_dict import from_state_dict as from_state_dict
    from treaty.runtime._state.state_dict import to_state_dict as to_state_dict
    from treaty.runtime.directory import inspect as inspect
    from treaty.runtime.directory import verify as verify

_HOME: Final = {
    "abstract": "_state.abstract",
    "nbytes": "_state.abstract",
    "from_bytes": "_bytes",
    "to_bytes": "_bytes",
    "restore": "_checkpoint",
    "save": "_checkpoint",
    "save_async": "_checkpoint",
    "CodecError": "_errors",
    "ConversionError": "_errors",
    "CorruptCheckpointError": "_errors",
    "IncompleteCheckpointError": "_errors",
    "KeyMapError": "_errors",
    "LeafError": "_errors",
    "Mismatch": "_errors",
    "MissingCheckpointError": "_errors",
    "NewerFormatError": "_errors",
    "StateMismatchError": "_errors",
    "StorageError": "_errors",
    "TreatyError": "_errors",
    "remove": "_remove",
    "shardings": "_sharding.shardings",
    "explain": "_state.state_dict",
    "from_state_dict": "_state.state_dict",
    "to_state_dict": "_state.state_dict",
    "inspect": "directory",
    "verify": "directory",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
