"""One pass over the arrays of one or two checkpoints, as far as a budget goes: what is in them, and what changed."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from attrs import define, frozen

from treaty.runtime._errors import CorruptCheckpointError, StorageError
from treaty.runtime._lazy import HostArray, pieces_of
from treaty.runtime._process.progress import progress_bar
from treaty.runtime._process.uninterrupted import go_on, uninterrupted
from treaty.runtime._report.changes import Change
from treaty.runtime._report.leaves import ReportLeaf
from treaty.runtime._report.roles import ROLES
from treaty.runtime._report.statistics import Statistics
from treaty.runtime._same import has_numbers, in_step, same_bytes

FAULTS: Final = (CorruptCheckpointError, StorageError)
MAX_BYTES: Final = 2**30  # that are read, if nobody says how many
Advance = Callable[[int], None]


@frozen
class Pair:
    """A leaf now, and what it was; either may be missing."""

    before: ReportLeaf | None
    after: ReportLeaf | None

    @property
    def sides(self) -> tuple[ReportLeaf, ...]:
        return tuple(one for one in (self.before, self.after) if one is not None)

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in self.sides)

    @property
    def role(self) -> str:
        return self.sides[-1].role

    def structure(self) -> str | None:
        """What of a leaf changed before any number did; None where numbers can be compared."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        if self.before.kind != self.after.kind or self.before.key_impl != self.after.key_impl:
            return "kind"
        if self.before.shape != self.after.shape:
            return "shape"
        return None


@define
class Findings:
    """What reading a pair has shown."""

    is_read: bool = False
    before: Statistics | None = None
    after: Statistics | None = None
    change: Change | None = None
    what: str | None = None  # became of it: added, removed, kind, shape, dtype, values, same
    error: str = ""


@uninterrupted
def read(pairs: list[Pair], max_bytes: int, progress: bool | None) -> list[Findings]:
    """In the order of the pairs; of arrays that there is no room for, what can be said without reading them."""
    chosen = _affordable(pairs, max_bytes)
    total = sum(pairs[number].nbytes for number in chosen)
    with progress_bar("report", total, progress) as advance:
        return [
            _read(pair, advance) if number in chosen or not pair.nbytes else Findings(what=pair.structure())
            for number, pair in enumerate(pairs)
        ]


def _affordable(pairs: list[Pair], max_bytes: int) -> set[int]:
    """Params before what belongs to them, small arrays before large ones. Each is read whole: half a count would mislead."""
    left, chosen = max_bytes, set()
    for number, pair in sorted(enumerate(pairs), key=lambda one: (ROLES.index(one[1].role), one[1].nbytes)):
        if 0 < pair.nbytes <= left:
            left -= pair.nbytes
            chosen.add(number)
    return chosen


def _read(pair: Pair, advance: Advance) -> Findings:
    found = Findings(is_read=True, what=pair.structure())
    try:
        if found.what is None:
            _compare(pair, found, advance)
        else:
            found.before, found.after = (
                None if one is None else _statistics(one, advance) for one in (pair.before, pair.after)
            )
    except FAULTS as error:
        found = Findings(is_read=True, what=found.what, error=str(error))
    return found


def _statistics(leaf: ReportLeaf, advance: Advance) -> Statistics | None:
    if not _is_counted(leaf):
        return None
    found = Statistics()
    for piece in _watched(pieces_of(leaf.value), advance):
        found.add(piece)
    return found


def _compare(pair: Pair, found: Findings, advance: Advance) -> None:
    """Both at once: two leaves that can be compared are read once each."""
    before, after = pair.before, pair.after
    assert before is not None
    assert after is not None
    if not (_is_counted(before) and _is_counted(after)):
        found.what = "same" if same_bytes(before.value, after.value) else "values"
        advance(pair.nbytes)
    else:
        found.before, found.after, found.change = Statistics(), Statistics(), Change()
        for one, other in in_step(before.value, after.value):
            go_on()
            found.before.add(one)
            found.after.add(other)
            found.change.add(one, other)
            advance(one.nbytes + other.nbytes)
        if before.dtype != after.dtype:
            found.what = "dtype"
        else:
            found.what = "same" if found.change.is_none else "values"


def _is_counted(leaf: ReportLeaf) -> bool:
    """The words of a random key say nothing."""
    return leaf.is_array and leaf.key_impl is None and has_numbers(leaf.value.dtype)


def _watched(pieces: Iterator[HostArray], advance: Advance) -> Iterator[Any]:
    for piece in pieces:
        go_on()
        yield piece
        advance(piece.nbytes)
