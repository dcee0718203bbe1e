"""Keys as people read them: in their natural order, as names of fields, and as names of classes."""

import keyword
import re
from typing import Any, Final

from treaty.schema.dims import spelled

_WORDS: Final = re.compile(r"[0-9]D|[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+|[0-9]+")
_FIRST: Final = ("step", "params", "model", "kernel", "weight", "w", "embedding", "scale")
_LAST: Final = ("bias", "b", "opt", "opt_state", "optimizer", "rng", "rngs", "key")


def natural(key: str) -> tuple[Any, ...]:
    """Weights before biases, params before their optimizer, else by the alphabet; `block_10` after `block_9`."""
    rank = _FIRST.index(key) - len(_FIRST) if key in _FIRST else _LAST.index(key) + 1 if key in _LAST else 0
    parts = re.split(r"([0-9]+)", key)
    return rank, *((0, int(part), "") if part.isdigit() and part.isascii() else (1, 0, part) for part in parts)


def field_name(key: str) -> str:
    """A key as an attribute: the key itself where Python allows it."""
    if key.isidentifier() and not _is_taken(key) and not key.startswith("_") and spelled(key) == key:
        return key
    name = re.sub(r"\W+", "_", spelled(key)).strip("_")
    if not name or not name.isidentifier():
        name = f"item_{name}" if name else "item"
    return f"{name}_" if _is_taken(name) else name


def _is_taken(name: str) -> bool:
    """Whether Python has a word for itself, in a class or in its constructor."""
    return keyword.iskeyword(name) or name == "self"


def plural_name(pattern: str) -> str:
    """`block_{i}` -> `blocks`, `Dense_{i}` -> `Dense_all`."""
    name = field_name(re.sub(r"\W+", "_", pattern.replace("{i}", "")).strip("_") or "items")
    name = re.sub(r"_+", "_", name)
    return name if name.endswith("s") and not name.endswith("ss") else f"{name}es" if name.endswith("s") else f"{name}s"


def class_name(key: str) -> str:
    """`block_0` -> `Block`, `mlp/~/linear_0` -> `Linear`."""
    last = re.sub(r"([1-3])_?d$", r"\1D", re.split(r"[/.]", key)[-1] or key)
    words = [word for word in _WORDS.findall(last.replace("{i}", "")) if not word.isdigit()]
    return "".join(word[0].upper() + word[1:] for word in words)


def singular(name: str) -> str:
    """`Layers` -> `Layer`."""
    return name[:-1] if name.endswith("s") and not name.endswith("ss") and len(name) > 2 else name
