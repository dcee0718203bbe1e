"""Names of modules and objects: where a thing is imported from, and where its generated code lives."""

import functools
import importlib
import importlib.util
import keyword
import sys
from pathlib import Path
from typing import Any, Final

from treaty.schema._errors import SchemaError

generating = False  # whether this process reads schemas to generate code from: then there may be none, or old code
_MAIN: Final = ("__main__", "__mp_main__")
_PYTREES: Final = "treaty.runtime._state.instances"  # imported as generated code is: by name, when it is needed


def symbol_of(value: Any) -> str:
    """`module:qualname`. Where the module is private, the shortest public path to the very same object."""
    named = value if hasattr(value, "__qualname__") and hasattr(value, "__module__") else type(value)
    module, qualname = home_of(str(named.__module__)), str(named.__qualname__)
    parts = module.split(".")
    if not any(part.startswith("_") for part in parts) or "<" in qualname or hasattr(value, "__treaty_state__"):
        return f"{module}:{qualname}"
    for end in range(1, len(parts)):
        shorter = ".".join(parts[:end])
        if not parts[end - 1].startswith("_") and _lookup(shorter, qualname) is value:
            return f"{shorter}:{qualname}"
    return f"{module}:{qualname}"


def object_of(symbol: str) -> Any:
    """What a symbol stands for. Imports its module."""
    module, _, qualname = symbol.partition(":")
    return functools.reduce(getattr, qualname.split("."), importlib.import_module(module))


def home_of(module: str) -> str:
    """The name that others import a module by: that of the script which is run, where there is code for it."""
    return (_script_name(module) or module) if module in _MAIN else module


def script_file(module: str) -> str | None:
    """The file of the script that is run, if the module is that."""
    return getattr(sys.modules.get(module), "__file__", None) if module in _MAIN else None


def can_be_imported(symbol: str, value: Any) -> bool:
    """Whether Python code can say `import module` and `module.qualname`, and has this very object then."""
    module, _, qualname = symbol.partition(":")
    return is_module_name(module) and is_module_name(qualname) and _lookup(module, qualname) is value


def is_module_name(name: str) -> bool:
    """Whether a dotted name can stand in an import statement."""
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split("."))


def generated_name(module: str) -> str:
    """The module that holds the generated code of `module`: what `__treaty__` says, or its sibling.

    A package has it inside, as `_treaty`: beside the package it would not be installed with it.
    """
    found = sys.modules.get(module) or importlib.import_module(module)
    named = getattr(found, "__treaty__", None)
    if isinstance(named, str):
        return named
    return f"{module}._treaty" if hasattr(found, "__path__") else f"{module}_treaty"


def former_name(module: str) -> str | None:
    """Where the code of a package lies that an earlier version generated, beside it; None if there is none, or a newer."""
    name = generated_name(module)
    former = f"{module}_treaty"
    return former if name == f"{module}._treaty" and not _exists(name) and _exists(former) else None


def import_generated(module: str) -> None:
    """Import the generated code of a module, if there is any; where another thread is at it, wait for that."""
    try:
        _import_code(module)
    except AttributeError as error:
        raise _of_what_is_gone(module, error) from None


def _import_code(module: str) -> None:
    module = _known_by_its_name(module)
    name = generated_name(module)
    if name in sys.modules or _exists(name):
        importlib.import_module(name)
    elif former := former_name(module):
        importlib.import_module(former)


def _of_what_is_gone(module: str, error: AttributeError) -> Exception:
    """What to raise for an AttributeError of generated code: it may name a class that was declared once."""
    if error.obj is not sys.modules.get(home_of(module)):
        return error
    return SchemaError(
        f"expected generated code for what {module} declares, got code for {error.name}, which is gone; run: treaty generate {module}"
    )


def import_code_on_first_use(cls: Any) -> None:
    """The first instance of a class imports its generated code: JAX must know it as a pytree before it sees one.

    Where there is no code, or not yet, JAX is told of the class all the same, so that it takes no instance for a leaf.
    """
    _known_by_its_name(cls.__module__)
    makers = {name: cls.__dict__[name] for name in ("__init__", "__setstate__") if name in cls.__dict__}

    def announce() -> None:
        if generating:
            if "jax" in sys.modules:  # factories are called, and may map over what they make
                importlib.import_module(_PYTREES).register_declared(cls)
            return
        is_there = _import_when_whole(cls.__module__)
        importlib.import_module(_PYTREES).expect_code(cls)
        if is_there:
            for name, original in makers.items():
                setattr(cls, name, original)

    def announcing(original: Any) -> Any:
        @functools.wraps(original)
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
        _import_code(module)
    except AttributeError as error:
        owner = getattr(error.obj, "__name__", "")
        if not _initializing(owner) and owner not in _MAIN:  # of a script, nobody knows whether it is at its end
            raise _of_what_is_gone(module, error) from None
        return False
    return True


def _known_by_its_name(module: str) -> str:
    """Let the script that is run be found by the name that its code imports it by, so that it is not run again as a module."""
    home = home_of(module)
    if home != module:
        sys.modules.setdefault(home, sys.modules[module])
    return home


def _script_name(module: str) -> str | None:
    found, file = sys.modules.get(module), script_file(module)
    if file is None:
        return None
    spec = getattr(found, "__spec__", None)
    name = Path(file).stem if spec is None else str(spec.name)  # python file.py, and python -m name
    if not is_module_name(name):
        return None
    if isinstance(getattr(found, "__treaty__", None), str):
        return name
    code = Path(file).with_name(f"{name.rpartition('.')[2]}_treaty.py")
    return name if code.is_file() else None


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
