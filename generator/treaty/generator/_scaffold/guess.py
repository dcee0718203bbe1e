"""Sizes of a state that is seen only once: those that are equal are taken for one dim."""

from collections.abc import Mapping, Sequence
from typing import Final

from treaty.schema.dims import Expr, Int, Name

_SMALL: Final = 4  # up to this a size is more often a constant, such as the side of a kernel


def guess(assignments: Sequence[Mapping[str, int]], sizes: Sequence[int]) -> Expr:
    size = sizes[0]
    return Int(size) if size <= _SMALL else Name(f"d_{size}")
