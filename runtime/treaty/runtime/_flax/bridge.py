"""Flax's own registry, reached only if the program imports Flax, so that each type is registered once for both.

Flax is told of what is registered here, whether it is imported before or after. Importing it here would cost every program
0.2 s beside JAX (`python -X importtime -c "import jax, flax.serialization"`), and make Flax a dependency.
"""

import importlib.abc
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final, NamedTuple

_NAME: Final = "flax.serialization"


class Functions(NamedTuple):
    """How one type becomes a state dict and is restored from one."""

    write: Callable[[Any], Any]
    read: Callable[[Any, Any], Any]


_shared: dict[type, Functions] = {}
_lock = threading.Lock()


def loaded_flax() -> Any:
    """Flax's serialization module once it is fully imported; otherwise None, also where our module has its name."""
    module = sys.modules.get(_NAME)
    return module if hasattr(module, "to_bytes") and getattr(module, "__name__", "") == _NAME else None


def share(cls: type, functions: Functions, *, override: bool) -> None:
    """Let Flax serve a type as we do, now or once it is imported."""
    with _lock:
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
        if override or cls not in _shared:
            _shared[cls] = functions
        flax = loaded_flax()
        if flax is not None and (override or not flax.is_serializable(cls)):
            flax.register_serialization_state(cls, *functions, override=True)


def _tell(flax: Any) -> None:
    with _lock:
        for cls, functions in _shared.items():
            flax.register_serialization_state(cls, *functions, override=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Notices that Flax is imported. The module is found and loaded as it would be without this."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if fullname != _NAME:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """Runs the module's own loader, then registers with Flax what was registered here before."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _tell(module)
