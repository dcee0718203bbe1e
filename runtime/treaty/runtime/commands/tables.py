"""Tables that fit the terminal: a cell that is too wide loses its middle, and no line is wrapped. Elsewhere they are as wide as they are."""

import sys
from collections.abc import Sequence
from typing import Final

from treaty.runtime.commands.output import escaped

_GAP: Final = "  "
_NARROWEST: Final = 12  # that a column is made to fit the terminal
_LONGEST: Final = 1000  # characters of a cell, also where there is no terminal
_PADDED: Final = 200  # characters to which cells are padded, where there is none; a few that are longer stand out


def table(rows: Sequence[Sequence[str]], soft: Sequence[int] = (), indent: str = "") -> list[str]:
    """Rows as lines, with columns of one width each. Where they have to fit a terminal, `soft` columns lose first."""
    room = terminal_width()
    cells = [[cut(escaped(cell), _LONGEST) for cell in row] for row in rows]
    widths = [
        max((one for one in map(width, column) if one <= _PADDED), default=0) for column in zip(*cells, strict=True)
    ]
    if room is not None:
        widest = [max(map(width, column)) for column in zip(*cells, strict=True)]
        widths = _fitted(_fitted(widest, soft, room - len(indent)), range(len(widest)), room - len(indent))
        cells = [[cut(cell, most) for cell, most in zip(row, widths, strict=True)] for row in cells]
    lines = (indent + _GAP.join(map(_pad, row, widths)).rstrip() for row in cells)
    return [line if room is None else cut_end(line, room) for line in lines]


def terminal_width() -> int | None:
    """None where standard output is no terminal."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size  # which imports much

    return get_terminal_size().columns


def fit_line(text: str) -> str:
    """One line that is no table."""
    return cut_end(escaped(text), terminal_width() or _LONGEST)


def width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def ends(first: str, last: str) -> str:
    """What a row of alike ones says: what the first and the last say, once if that is the same."""
    return first if first == last else f"{first} … {last}"


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


def _fitted(widths: list[int], columns: Sequence[int], room: int) -> list[int]:
    """Of some columns, the widest lose most: headings and numbers stay."""
    widths = list(widths)
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - room
    while excess > 0 and columns:
        widest = max(columns, key=widths.__getitem__)
        second = max((widths[one] for one in columns if widths[one] < widths[widest]), default=0)
        shorter = max(second, widths[widest] - excess, _NARROWEST)
        if shorter >= widths[widest]:
            break
        excess -= widths[widest] - shorter
        widths[widest] = shorter
    return widths
