"""Defaults as texts: what a schema and a lock keep of them, and what can be made of that again."""

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final

from treaty.schema.modules import can_be_imported, symbol_of

FACTORY: Final = "factory:"
OF_INSTANCE: Final = " of the instance"  # what only attrs calls, and no restore can
_VALUE: Final = "value:"  # of a type that no text can give back
_OF_PARTIAL: Final = "factory:functools:partial"  # as locks had it once, whatever it called
_PLAIN: Final = (bool, int, float, complex, str, bytes)


def text_of(value: Any) -> str:
    """A default that is a value: the text that gives it back, or else one by which another can be told from it."""
    if value is None or type(value) in _PLAIN:
        return repr(value)
    plain: Any = next((kind for kind in (int, float, complex, str) if isinstance(value, kind)), None)
    if plain is not None:  # numpy's float64 is a float
        return repr(plain(value))
    if type(value) is tuple and all(map(is_literal, map(text_of, value))):
        return repr(value)
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0
    if isinstance(value, tuple) or is_scalar:
        items = value if isinstance(value, tuple) else (value.item(),)
        return f"{_VALUE}{type(value).__qualname__}({', '.join(map(text_of, items))})"
    return f"{_VALUE}{type(value).__qualname__}"


def factory_text(factory: Callable[..., Any], takes_self: bool) -> str:
    """By its name, where that leads to it; a function without one is gone with its declaration."""
    symbol = symbol_of(factory)
    if takes_self:
        return f"{FACTORY}<{symbol.partition(':')[2]}>{OF_INSTANCE}"
    qualname = symbol.partition(":")[2]
    own = f"{getattr(factory, '__module__', None)}:{qualname}"  # of a script, which goes by another name elsewhere
    if "<" in qualname or can_be_imported(symbol, factory) or can_be_imported(own, factory):
        return FACTORY + symbol
    return f"{FACTORY}<{qualname}>"


def is_literal(text: str) -> bool:
    try:
        literal(text)
    except ValueError:
        return False
    return True


def literal(text: str) -> Any:
    """The value that a text gives back; ValueError where it is none."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        pass
    for kind in (float, complex):  # inf and nan, which Python has no literals for
        try:
            return kind(text)
        except ValueError:
            continue
    raise ValueError(text)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with the names that factories and enums have now."""
    if text.startswith(FACTORY):
        symbol = text.removeprefix(FACTORY)
        return FACTORY + names.get(symbol, symbol)
    symbol, _, member = text.rpartition(".")
    return f"{names[symbol]}.{member}" if symbol in names else text


def can_be_made(text: str) -> bool:
    """Whether a default is there when only its text is left."""
    if text.startswith(FACTORY):
        return "<" not in text and text != _OF_PARTIAL
    return not text.startswith(_VALUE) and (":" in text or is_literal(text))  # an enum's member has a module


def is_same(earlier: str | None, later: str | None) -> bool:
    """Whether two texts may be of one default: locks did not always tell tuples, or functions without a name, apart."""
    if earlier == later or earlier is None or later is None:
        return earlier == later
    if earlier == _OF_PARTIAL or (earlier.startswith(_VALUE) and not earlier.endswith(")")):
        return earlier.startswith(FACTORY) == later.startswith(FACTORY)
    return False
