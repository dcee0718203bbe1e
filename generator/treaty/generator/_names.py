"""Names in generated modules: of functions, of locals, and of imported modules."""

import builtins
import keyword
import re
from collections.abc import Iterable
from typing import Final

from treaty.schema import SchemaError, ir
from treaty.schema.dtypes import BY_NAME

# Locals of generated functions, which no dim may shadow; nor may it shadow a builtin.
_TAKEN: Final = frozenset({"state", "put", "obj", "found", "size", *dir(builtins)})
# Aliases of imports that generated modules make themselves, and the constants that hold dtypes.
_RESERVED: Final = frozenset(
    {"_np", "_jax", "_codec", "_ml_dtypes", "_TypedDict", "_classes"} | {f"_{name}" for name in BY_NAME}
)


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
    """(function stem, class stem) of every class.

    Code of @state classes is found by its stem, from other modules too, so two of one module must differ; what is
    emitted on the way (generics filled in, tuples, classes of other libraries) is numbered where it must be.
    """
    taken: dict[str, str] = {}
    found: dict[str, tuple[str, str]] = {}
    for cls in sorted(classes, key=lambda cls: not _findable(cls)):
        stem, title, number = snake(_title(cls)), pascal(_title(cls)), ""
        if _findable(cls) and cls.module != home:
            found[cls.id] = (stem, title)  # used through its own module's name
            continue
        while f"{stem}{number}" in taken or f"{title}{number}" in taken:
            if _findable(cls):
                other = short(taken.get(stem) or taken[title])
                raise SchemaError(f"{cls.qualname} and {other} of {home} would both generate {stem}_read; rename one")
            number = str(int(number.lstrip("_") or 1) + 1)
        name = (f"{stem}_{number}" if number else stem, f"{title}{number}")
        taken |= {f"{stem}{number}": cls.id, name[1]: cls.id}
        found[cls.id] = name
    return found


def _findable(cls: ir.Class) -> bool:
    return cls.kind == "state" and "[" not in cls.id


def _title(cls: ir.Class) -> str:
    """What a class is called after: a class of another library by its own name, whatever its fields are here."""
    if cls.kind == "keywords":
        return "keywords"
    return cls.symbol if cls.kind == "foreign" else cls.id


def local(dim: str) -> str:
    """A dim as a parameter: its own name, unless Python or the generated code needs that name."""
    taken = keyword.iskeyword(dim) or dim in _TAKEN or dim.startswith("_") or dim.endswith("_") or _emitted(dim)
    return f"{dim}_" if taken else dim


def literal(value: str | bytes) -> str:
    """A string as Python source, in the quotes a formatter would choose."""
    quoted = repr(value)
    start = 1 if isinstance(value, bytes) else 0
    single = quoted[start] == "'" and '"' not in quoted
    return f'{quoted[:start]}"{quoted[start + 1 : -1]}"' if single else quoted


def loop_variable(depth: int) -> str:
    return "x" if depth == 0 else f"x{depth}"


def module_aliases(modules: Iterable[str]) -> dict[str, str]:
    """`{"my.state": "_state"}`, the last part of the name, with more of it where two are alike."""
    found: dict[str, str] = {}
    for module in modules:
        parts = module.split(".")
        for start in range(len(parts) - 1, -1, -1):
            alias = "_" + "_".join(parts[start:]).strip("_")
            if alias not in found.values() and alias not in _RESERVED:
                break
        while alias in found.values() or alias in _RESERVED:
            alias += "_"
        found[module] = alias
    return found


def _emitted(name: str) -> bool:
    """Whether generated code may use the name: loop variables, steps of a path, functions."""
    function = r"\w+_(read|new|abstract|to_state_dict|from_state_dict|peek_\w+)|\w+_CODEC|SCHEMA"
    return re.fullmatch(rf"(k|x|at)\d*|{function}", name) is not None
