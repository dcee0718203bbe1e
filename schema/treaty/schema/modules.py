"""Names of modules and objects: where a thing is imported from, and where its generated code lives."""

import importlib
import importlib.util
import sys
from functools import wraps
from typing import Any


def symbol_of(value: Any) -> str:
    """`module:qualname`. Where the module is private, the shortest public path to the very same object."""
    module, qualname = str(value.__module__), str(value.__qualname__)
    parts = module.split(".")
    if not any(part.startswith("_") for part in parts) or "<" in qualname or hasattr(value, "__treaty_version__"):
        return f"{module}:{qualname}"
    for end in range(1, len(parts)):
        shorter = ".".join(parts[:end])
        if not parts[end - 1].startswith("_") and _lookup(shorter, qualname) is value:
            return f"{shorter}:{qualname}"
    return f"{module}:{qualname}"


def generated_name(module: str) -> str:
    """The module that holds the generated code of `module`: what `__treaty__` says, or its sibling."""
    named = getattr(sys.modules.get(module) or importlib.import_module(module), "__treaty__", None)
    return named if isinstance(named, str) else f"{module}_treaty"


def import_generated(module: str) -> None:
    """Import the generated code of a module, if there is any."""
    name = generated_name(module)
    if name not in sys.modules and _exists(name):
        importlib.import_module(name)


def import_code_on_first_use(cls: Any) -> None:
    """The first instance of a class imports its generated code: JAX must know it as a pytree before it sees one."""
    original = cls.__init__

    @wraps(original)
    def first(self: Any, *args: Any, **kwargs: Any) -> None:
        if not _initializing(cls.__module__):  # generated code needs the whole module: wait for it
            cls.__init__ = original
            try:
                import_generated(cls.__module__)
            except AttributeError as error:
                if not _initializing(getattr(error.obj, "__name__", "")):
                    raise
                cls.__init__ = first  # it needs the whole of another module too, which is being imported
        original(self, *args, **kwargs)

    cls.__init__ = first


def _initializing(module: str) -> bool:
    return bool(getattr(getattr(sys.modules.get(module), "__spec__", None), "_initializing", False))


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _lookup(module: str, qualname: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found
