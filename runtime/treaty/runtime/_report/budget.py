"""Which arrays are read: of so many bytes as many as there is room for, the most telling first."""

from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple, TypeVar

from treaty.runtime._report.roles import ROLES

DEFAULT: Final = 2**30

_T = TypeVar("_T", bound=Hashable)


class Cost(NamedTuple):
    """What reading a leaf takes; of one that is in two checkpoints, both times."""

    role: str
    nbytes: int


def affordable(costs: Iterable[tuple[_T, Cost]], max_bytes: int) -> set[_T]:
    """Params before what belongs to them, small arrays before large ones. Each is read whole: half a count would mislead."""
    left, chosen = max_bytes, set()
    for one, cost in sorted(costs, key=lambda pair: (ROLES.index(pair[1].role), pair[1].nbytes)):
        if cost.nbytes <= left:
            left -= cost.nbytes
            chosen.add(one)
    return chosen
