"""Tables that fit the terminal: a cell that is too wide loses its middle, and no line is wrapped. Elsewhere they are as wide as they are."""

import shutil
import sys
from collections.abc import Sequence
from typing import Final

from treaty.runtime.commands.output import escaped

_GAP: Final = "  "
_NARROWEST: Final = 12  # that a column is made to fit the terminal
_LONGEST: Final = 1000  # characters of a cell, also where there is no terminal
_PADDED: Final = 200  # characters to which cells are padded; a few that are longer stand out


def table(rows: Sequence[Sequence[str]], room: int | None = None, indent: str = "") -> list[str]:
    """Rows as lines, with columns of one width each; without `room` they fit the terminal, if there is one."""
    room = terminal_width() if room is None else room
    cells = [[cut(escaped(cell), _LONGEST) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    if room is not None:
        widths = _fitted(widths, room - len(indent))
    lines = []
    for row in cells:
        padded = (_pad(cut(cell, most), min(most, _PADDED)) for cell, most in zip(row, widths, strict=True))
        line = f"{indent}{_GAP.join(padded)}".rstrip()
        lines.append(line if room is None else cut_end(line, room))
    return lines


def terminal_width() -> int | None:
    """None where standard output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fit_line(text: str) -> str:
    """One line that is no table."""
    return cut_end(escaped(text), terminal_width() or _LONGEST)


def width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(2 if east_asian_width(one) in "WF" else not combining(one) for one in text)


def cut(text: str, most: int) -> str:
    """Without its middle, if it is too wide: both ends of a path say which one it is."""
    if width(text) <= most:
        return text
    end = _begin(text[::-1], (most - 1) // 2)[::-1]
    return f"{_begin(text, most - 1 - width(end))}…{end}"


def cut_end(text: str, most: int) -> str:
    return text if width(text) <= most else f"{_begin(text, most - 1)}…"


def _begin(text: str, most: int) -> str:
    text = text[:most]
    while width(text) > most:
        text = text[:-1]
    return text


def _pad(text: str, most: int) -> str:
    return text + " " * (most - width(text))


def _fitted(widths: list[int], room: int) -> list[int]:
    """The widest columns lose most; headings and numbers stay."""
    widths = list(widths)
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - room
    while excess > 0:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= _NARROWEST:
            break
        second = max([_NARROWEST, *(one for one in widths if one < widths[widest])])
        shorter = max(second, widths[widest] - excess, _NARROWEST)
        excess -= widths[widest] - shorter
        widths[widest] = shorter
    return widths
