"""Keys that stand for many: `block_{i}` is `block_0`, `block_1`, …, and `conv_{key}` what a dict has as keys."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar

from attrs import frozen

NUMBER: Final = "{i}"
TEXT: Final = "{key}"

_T = TypeVar("_T")
_K = TypeVar("_K", str, str | int)
_NUMBER: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_LOOP: Final = "loop"  # of a token: any number of such characters, also none


@frozen
class KeyText:
    """The text around the one placeholder, and whether that stands for numbers."""

    before: str
    after: str
    numbered: bool

    def key(self, item: str) -> str:
        return f"{self.before}{item}{self.after}"

    def item(self, key: object) -> str | None:
        """What the placeholder stands for in a key; None where it is the key of something else. Numbers have one spelling."""
        if key.__class__ is not str:
            return None
        text = str(key)
        end = len(text) - len(self.after)
        if end < len(self.before) or not text.startswith(self.before) or not text.endswith(self.after):
            return None
        item = text[len(self.before) : end]
        return item if not self.numbered or _NUMBER.fullmatch(item) else None

    def gathered(self, state: Mapping[Any, _T]) -> dict[str, _T]:
        """The entries of a state dict that are items, by what the placeholder stands for."""
        found = ((self.item(key), value) for key, value in state.items())
        return {item: value for item, value in found if item is not None}

    def spread(self, items: Mapping[str, _T]) -> dict[str, _T]:
        return {self.key(item): value for item, value in items.items()}

    def meets(self, other: "KeyText") -> bool:
        """Whether some key is one of both."""
        return _meet(self._tokens(), other._tokens())

    def _tokens(self) -> tuple[tuple[str, str], ...]:
        digits = "-0123456789"
        middle = [(digits, ""), (digits, _LOOP)] if self.numbered else [("", _LOOP)]
        return (*((one, "") for one in self.before), *middle, *((one, "") for one in self.after))


@lru_cache(maxsize=1024)
def key_text(text: str) -> KeyText:
    """The parts of a text that `is_key_text`."""
    placeholder = NUMBER if NUMBER in text else TEXT
    before, _, after = text.partition(placeholder)
    return KeyText(before, after, placeholder == NUMBER)


def is_key_text(text: str) -> bool:
    """Whether a text has one placeholder, and no other braces."""
    return (text.count(NUMBER), text.count(TEXT)) in ((1, 0), (0, 1)) and text.count("{") == text.count("}") == 1


def fused(path: Iterable[_K]) -> tuple[_K, ...]:
    """Path as stored: the key text and the item after it become one key (`block_{i}`, `3` -> `block_3`)."""
    found: list[_K] = []
    waiting = ""
    for key in path:
        if waiting:
            found.append(key_text(waiting).key(str(key)))
            waiting = ""
        elif isinstance(key, str) and is_key_text(key):
            waiting = key
        else:
            found.append(key)
    if waiting:
        found.append(waiting)
    return tuple(found)


def _meet(one: tuple[tuple[str, str], ...], other: tuple[tuple[str, str], ...]) -> bool:
    """Whether two lists of tokens match one text. A token is the characters that fit, "" for all, and whether it loops."""
    if not one and not other:
        return True
    if one and one[0][1] and _meet(one[1:], other):
        return True
    if other and other[0][1] and _meet(one, other[1:]):
        return True
    if not one or not other or not _share(one[0][0], other[0][0]):
        return False
    loops = bool(one[0][1]), bool(other[0][1])
    if all(loops):
        return False  # to take a character of both leads nowhere else
    return _meet(one if loops[0] else one[1:], other if loops[1] else other[1:])


def _share(one: str, other: str) -> bool:
    return not one or not other or bool({*one} & {*other})
