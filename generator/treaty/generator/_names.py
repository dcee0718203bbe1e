"""Names in generated modules: of functions, of locals, and of imported modules."""

import hashlib
import keyword
import re
from collections.abc import Iterable
from typing import Final, assert_never

from attrs import frozen

from treaty.schema import SchemaError, ir
from treaty.schema.dims import spelled
from treaty.schema.dtypes import BY_NAME

# No dim may shadow a builtin. Those that Python had when this was written: another version would generate other code.
_BUILTINS: Final = """
abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod compile complex copyright
credits delattr dict dir divmod enumerate eval exec exit filter float format frozenset getattr globals hasattr hash
help hex id input int isinstance issubclass iter len license list locals map max memoryview min next object oct open
ord pow print property quit range repr reversed round set setattr slice sorted staticmethod str sum super tuple type
vars zip
"""
# Nor a local of a generated function.
_TAKEN: Final = frozenset({"state", "put", "obj", "found", "size", *_BUILTINS.split()})
ORDERED: Final = "collections:OrderedDict"  # the symbol of a dict whose order JAX keeps
_LONGEST: Final = 48  # characters in the name of a generic class with its arguments
_KEPT: Final = 16  # characters of a longer one that are kept, beside the digits that stand for all of it
# Aliases of imports that generated modules make themselves, and the constants that hold dtypes.
_RESERVED: Final = frozenset(
    {"_np", "_jax", "_codec", "_ml_dtypes", "_TypedDict", "_Unpack", "_classes"} | {f"_{name}" for name in BY_NAME}
)


@frozen
class TypedEntry:
    """One entry of a TypedDict: its key, and its type to mypy."""

    key: str
    type: str


def short(id: str) -> str:
    """`pkg.state:Adam[pkg.state:Params]` -> `Adam[Params]`."""
    return re.sub(r"[\w.]+:([\w.]+\.<locals>\.)?", "", id)


def pascal(id: str) -> str:
    """The stem of class names: `Adam[Params]` -> `AdamParams`."""
    return spelled("".join(word[:1].upper() + word[1:] for word in _words(id)))


def snake(id: str) -> str:
    """The stem of function names: `HTTPState` -> `http_state`."""
    stem = spelled(_join(_words(id)))
    return stem if stem.isidentifier() else f"_{stem}"  # of a class called `_2D`, or `_`


def stems(classes: Iterable[ir.Class], home: str | None) -> dict[str, tuple[str, str]]:
    """(function stem, class stem) of every class; no home: all of it goes into one module in memory.

    Code of @state classes is found by its stem, from other modules too, so two of one module must differ; what is
    emitted on the way (generics filled in, tuples, classes of other libraries) is numbered where it must be.
    """
    taken: dict[str, str] = {}
    found: dict[str, tuple[str, str]] = {}
    for cls in sorted(classes, key=lambda cls: not findable(cls)):
        stem, title = name = snake(title_of(cls)), pascal(title_of(cls))
        if findable(cls) and home not in (None, cls.module):
            found[cls.id] = name  # used through its own module's name
            continue
        number = 1
        while clash := next((one for one in emitted_for(cls, *name) if one in taken), None):
            if findable(cls) and home is not None:
                other = short(taken[clash])
                raise SchemaError(f"{cls.qualname} and {other} of {home} would both generate {clash}; rename one")
            number += 1
            name = (f"{stem}_{number}", f"{title}{number}")
        taken |= dict.fromkeys(emitted_for(cls, *name), cls.id)
        found[cls.id] = name
    return found


def findable(cls: ir.Class) -> bool:
    """Whether other modules call the code of a class by name: declared with @state, and not a generic filled in."""
    return cls.kind == "state" and "[" not in cls.id


def emitted_for(cls: ir.Class, stem: str, title: str) -> list[str]:
    """The names that a generated module has for a class."""
    functions = ("read", "new", "to_state_dict", "from_state_dict", "abstract", *(f"peek_{dim}" for dim in cls.dims))
    changes = [f"{stem}_replace", f"{title}Changes"] if cls.kind == "state" else []
    return [*(f"{stem}_{name}" for name in functions), f"{stem.upper()}_CODEC", f"{title}State", *changes]


def type_name(cls: ir.Class, digits: int) -> str:
    """What stands for a generic class whose arguments are too long to be repeated."""
    return f"{pascal(cls.symbol)}{_digest(cls.id)[:digits]}Type"


def title_of(cls: ir.Class) -> str:
    """What a class is called after: a class of another library by its own name, whatever its fields are here."""
    match cls.kind:
        case "keywords":
            return "keywords"
        case "foreign":
            return cls.symbol
        case "state" | "attrs" | "namedtuple" | "typeddict" | "tuple" | "partial":
            return cls.id
        case _:
            assert_never(cls.kind)


def _words(id: str) -> list[str]:
    """The words of a name. Of one too long to read, the first words and digits that depend on nothing but the id."""
    words = re.findall(r"\w+", short(id))
    if not re.search(r"[\[(]", id) or len(_join(words)) <= _LONGEST:
        return words
    while len(words) > 1 and len(_join(words)) > _KEPT:
        words.pop()
    return [*words, _digest(id)[:8]]


def _digest(id: str) -> str:
    return hashlib.sha256(id.encode()).hexdigest()


def _join(words: Iterable[str]) -> str:
    split = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", word) for word in words]
    return re.sub("_+", "_", "_".join(split)).strip("_").lower()


def in_docstring(text: str) -> str:
    """Text as it can stand between triple quotes."""
    return repr(text)[1:-1].replace('"', '\\"')


def is_name(text: str) -> bool:
    """Whether Python reads the text as one name and spells it the same."""
    return text.isidentifier() and not keyword.iskeyword(text) and spelled(text) == text


def is_by_call(entries: Iterable[TypedEntry]) -> bool:
    """Whether a TypedDict of keys and types has to be made by a call: a key is no line of a class body, or used by a type."""
    items = list(entries)
    used = {word for one in items for word in re.findall(r"\w+", one.type)}
    return any(not is_name(one.key) or one.key.startswith("__") or one.key in used for one in items)


def local(dim: str) -> str:
    """A dim as a parameter: its own name, unless Python or the generated code needs that name."""
    taken = keyword.iskeyword(dim) or dim in _TAKEN or dim.startswith("_") or dim.endswith("_") or _emitted(dim)
    return f"{dim}_" if taken else dim


def gathered_locals(cls: ir.Class) -> dict[str, str]:
    """What generated functions call the items of each spread field, by its key: as the field, unless a dim is called so."""
    taken = {local(dim) for dim in cls.dims}
    found: dict[str, str] = {}
    for field in cls.fields:
        if field.spread:
            name = local(field.name) if is_name(field.name) else "items"
            while name in taken:
                name += "_"
            taken.add(name)
            found[field.key] = name
    return found


def literal(value: str | bytes) -> str:
    """A string as Python source, in the quotes a formatter would choose. Whatever a user wrote goes through here."""
    quoted = repr(value)
    start = 1 if isinstance(value, bytes) else 0
    single = quoted[start] == "'" and '"' not in quoted
    return f'{quoted[:start]}"{quoted[start + 1 : -1]}"' if single else quoted


def loop_variable(number: int) -> str:
    return "x" if number == 0 else f"x{number}"


def module_aliases(modules: Iterable[str], emitted: Iterable[str] = ()) -> dict[str, str]:
    """`{"my.state": "_state"}`, the last part of the name, with more of it where two are alike, or a number.

    None ends with an underscore, as the parameters of dims do that begin with one.
    """
    taken, found = {*_RESERVED, *emitted}, {}
    for module in modules:
        parts = module.split(".")
        for start in range(len(parts) - 1, -1, -1):
            alias = stem = f"_{spelled('_'.join(parts[start:])).strip('_') or 'module'}"
            if alias not in taken:
                break
        number = 1
        while alias in taken:
            number += 1
            alias = f"{stem}{number}"
        taken.add(alias)
        found[module] = alias
    return found


def _emitted(name: str) -> bool:
    """Whether generated code may use the name: loop variables, steps of a path, functions."""
    function = r"\w+_(read|new|abstract|to_state_dict|from_state_dict|peek_\w+)|\w+_CODEC|SCHEMA"
    return re.fullmatch(rf"(k|x|at)\d*|{function}", name) is not None
