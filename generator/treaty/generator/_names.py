"""Names in generated modules: of functions, of locals, and of imported modules."""

import keyword
import re
from collections.abc import Iterable
from typing import Final

from treaty.schema import SchemaError, ir

# Locals and builtins that generated functions use, and so no dim may shadow.
_TAKEN: Final = frozenset({"state", "put", "obj", "found", "range", "tuple", "list", "dict", "str", "int", "len"})


def short(id: str) -> str:
    """`pkg.state:Adam[pkg.state:Params]` -> `Adam[Params]`."""
    return re.sub(r"[\w.]+:([\w.]+\.<locals>\.)?", "", id)


def pascal(id: str) -> str:
    """The stem of class names: `Adam[Params]` -> `AdamParams`."""
    words = re.findall(r"\w+", short(id))
    return "".join(word[:1].upper() + word[1:] for word in words)


def snake(id: str) -> str:
    """The stem of function names: `HTTPState` -> `http_state`."""
    words = re.findall(r"\w+", short(id))
    split = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", word) for word in words]
    return re.sub("_+", "_", "_".join(split)).strip("_").lower()


def stems(classes: Iterable[ir.Class], home: str) -> dict[str, tuple[str, str]]:
    """(function stem, class stem) of every class. Two of one module must differ; borrowed ones are numbered."""
    taken: dict[str, str] = {}
    found: dict[str, tuple[str, str]] = {}

    def owned(cls: ir.Class) -> bool:
        """Other modules find the code of such a class by its stem, so it cannot be numbered."""
        return cls.kind == "state" and cls.module == home and "[" not in cls.id

    for cls in sorted(classes, key=lambda cls: not owned(cls)):
        stem, number = snake(cls.id), 1
        while (name := stem if number == 1 else f"{stem}_{number}") in taken:
            if owned(cls):
                raise SchemaError(
                    f"{cls.qualname} and {short(taken[name])} of {home} would both generate {name}_read; rename one"
                )
            number += 1
        taken[name] = cls.id
        found[cls.id] = (name, pascal(cls.id) + ("" if number == 1 else str(number)))
    return found


def local(dim: str) -> str:
    """A dim as a parameter: its own name, unless Python or the generated code needs that name."""
    return f"{dim}_" if keyword.iskeyword(dim) or dim in _TAKEN or dim.startswith("_") or _loop(dim) else dim


def literal(text: str) -> str:
    """A string as Python source, in the quotes a formatter would choose."""
    quoted = repr(text)
    return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in quoted else quoted


def loop_variable(depth: int) -> str:
    return "x" if depth == 0 else f"x{depth}"


def module_aliases(modules: Iterable[str]) -> dict[str, str]:
    """`{"my.state": "_state"}`, the last part of the name, with more of it where two are alike."""
    found: dict[str, str] = {}
    for module in modules:
        parts = module.split(".")
        for start in range(len(parts) - 1, -1, -1):
            alias = "_" + "_".join(parts[start:]).strip("_")
            if alias not in found.values() and alias not in ("_np", "_jax", "_codec"):
                break
        while alias in found.values() or alias in ("_np", "_jax", "_codec"):
            alias += "_"
        found[module] = alias
    return found


def _loop(name: str) -> bool:
    return re.fullmatch(r"[kx]\d*", name) is not None
