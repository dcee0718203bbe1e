"""Names of modules and objects: where a thing is imported from, and where its generated code lives."""

import importlib
import importlib.util
import sys
from functools import wraps
from typing import Any, Final

generating = False  # whether this process reads schemas to generate code from: then there may be none, or old code
_PYTREES: Final = "treaty.runtime._state.instances"  # imported as generated code is: by name, when it is needed


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
    """Import the generated code of a module, if there is any; where another thread is at it, wait for that."""
    name = generated_name(module)
    if name in sys.modules or _exists(name):
        importlib.import_module(name)


def import_code_on_first_use(cls: Any) -> None:
    """The first instance of a class imports its generated code: JAX must know it as a pytree before it sees one.

    Where there is no code, or not yet, JAX is told of the class all the same, so that it takes no instance for a leaf.
    """
    makers = {name: cls.__dict__[name] for name in ("__init__", "__setstate__") if name in cls.__dict__}

    def announce() -> None:
        if generating:
            return
        is_there = _import_when_whole(cls.__module__)
        importlib.import_module(_PYTREES).expect_code(cls)
        if is_there:
            for name, original in makers.items():
                setattr(cls, name, original)

    def announcing(original: Any) -> Any:
        @wraps(original)
        def first(self: Any, *args: Any, **kwargs: Any) -> None:
            announce()
            original(self, *args, **kwargs)

        return first

    for name, original in makers.items():
        setattr(cls, name, announcing(original))


def _import_when_whole(module: str) -> bool:
    """Import the generated code of a module, unless one that it needs is still being imported; whether it was tried."""
    if _initializing(module):
        return False
    try:
        import_generated(module)
    except AttributeError as error:
        if not _initializing(getattr(error.obj, "__name__", "")):
            raise
        return False
    return True


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
