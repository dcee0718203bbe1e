"""Type annotations as text, laid out as `ruff format` does at 120 columns."""

from typing import Final, TypeAlias

from attrs import frozen

WIDTH: Final = 120
_STEP: Final = "    "


@frozen
class Brackets:
    """`head[items]` or `head(items)`."""

    head: str
    items: "tuple[Piece, ...]"
    closing: str = "]"

    @property
    def opening(self) -> str:
        return f"{self.head}{'[' if self.closing == ']' else '('}"


Piece: TypeAlias = str | Brackets


def flat(piece: Piece) -> str:
    if isinstance(piece, str):
        return piece
    return f"{piece.opening}{', '.join(map(flat, piece.items))}{piece.closing}"


def field_lines(name: str, type_: Piece, value: str = "") -> list[str]:
    """The lines of a field of a class."""
    end = f" = {value}" if value else ""
    return _broken(f"{_STEP}{name}: ", type_, end, _STEP)


def _broken(start: str, piece: Piece, end: str, indent: str) -> list[str]:
    line = f"{start}{flat(piece)}{end}"
    if len(line) <= WIDTH or isinstance(piece, str):
        return [line]
    inner = f"{indent}{_STEP}"
    together = inner + ", ".join(map(flat, piece.items))
    if len(together) <= WIDTH:
        return [f"{start}{piece.opening}", together, f"{indent}{piece.closing}{end}"]
    comma = "," if len(piece.items) > 1 or piece.closing == ")" else ""
    lines = [one for item in piece.items for one in _broken(inner, item, comma, inner)]
    return [f"{start}{piece.opening}", *lines, f"{indent}{piece.closing}{end}"]


def import_lines(module: str, names: list[str]) -> list[str]:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return [line]
    return [f"from {module} import (", *(f"{_STEP}{name}," for name in names), ")"]
