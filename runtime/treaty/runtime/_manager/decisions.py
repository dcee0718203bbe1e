"""When a step is saved, by arguments that all processes have alike, and the words for it."""

import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import define, frozen

from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._manager.retention import count_of
from treaty.runtime._process.council import Council
from treaty.runtime.formats.directory.steps import LARGEST

_SHARE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)%", re.ASCII)


@frozen
class Decision:
    """What a call of `CheckpointManager.save` did. It is true if the step is saved, or on its way."""

    saved: bool
    reason: str

    def __bool__(self) -> bool:
        return self.saved

    def __str__(self) -> str:
        return f"{'saved' if self.saved else 'not saved'}: {self.reason}"


@define
class Cadence:
    """`every` steps, `every_s` seconds, or so many seconds that saving takes a `share` of the time. Clocks are monotonic."""

    every: int | None
    every_s: float | None
    share: float | None
    _since: float
    _cost: float | None = None  # of the last save, for who calls
    _lasted: float = 0.0  # seconds of one that has ended, with what was done in the background
    _under_way: float | None = None  # when the one began that has not ended

    @property
    def asks_the_clock(self) -> bool:
        return self.every_s is not None or self.share is not None

    def by_number(self, step: int) -> Decision:
        """What the number of a step alone decides."""
        if self.every is None:
            return Decision(not self.asks_the_clock, "every step is saved")
        if step % self.every == 0:
            return Decision(True, f"step {step} is a multiple of every={self.every}")
        return Decision(False, f"step {step} is no multiple of every={self.every}")

    def by_clock(self) -> Decision:
        passed = time.monotonic() - self._since
        if self.every_s is not None:
            what = f"{passed:.1f} s since the last save, every_s={self.every_s:g}"
            return Decision(passed >= self.every_s, what)
        assert self.share is not None
        if self._under_way is not None:
            return Decision(False, "the save before it has not ended")
        if self._cost is None:
            return Decision(True, "the first save, to know what it costs")
        wanted = max(self._cost / self.share, self._lasted)
        return Decision(
            passed >= wanted, f"{passed:.1f} s since the last save, {wanted:.1f} s for {self.share:.3g} of the time"
        )

    def begins(self, began: float) -> None:
        self._under_way = began

    def saved(self, cost: float) -> None:
        """A save has begun, and the caller waited for so many seconds."""
        self._since = time.monotonic()
        self._cost = cost

    def ended(self, began: float, seconds: float) -> None:
        """The save that began then took so long. Its thread may say so when the next one has begun."""
        self._lasted = seconds
        if self._under_way == began:
            self._under_way = None


def cadence(every: object, every_s: object) -> Cadence:
    """The arguments of a manager, checked."""
    seconds, share = _seconds(every_s)
    return Cadence(count_of("every", every), seconds, share, time.monotonic())


def checked_step(step: object) -> int:
    try:
        number = step.__index__()  # type: ignore[attr-defined]  # numpy's integers, and jax arrays of one, have it
    except (AttributeError, TypeError):
        number = -1
    if isinstance(step, bool) or not 0 <= number <= LARGEST:
        raise InvalidArgumentError(f"expected a step from 0 to {LARGEST}, got {step!r}")
    return int(number)


def require_alike(together: Council, given: Mapping[str, Any]) -> None:
    """An error of all processes where one of them was given something else than process 0. All of it is data for JSON.

    They would not make the same calls, and a step could be of one process at one number and of another at the next.
    """
    first: Mapping[str, Any] = together.agreed(lambda: given)
    names = [name for name in given if given[name] != first[name]]
    found = f"{_shown(first, names)} on process 0, {_shown(given, names)} on process {together.index}"
    told = together.problems(found if names else None)
    if told:
        raise InvalidArgumentError(
            f"expected a manager with the same arguments on every process, got {told[min(told)]}"
        )


def _shown(given: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{name}={given[name]!r}" for name in names)


def _seconds(given: object) -> tuple[float | None, float | None]:
    if given is None:
        return None, None
    if isinstance(given, str) and (found := _SHARE.fullmatch(given)) is not None and 0 < float(found[1]) <= 100:
        return None, float(found[1]) / 100
    if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 < given < math.inf:
        return float(given), None
    raise InvalidArgumentError(f'expected every_s as seconds, or as a share of the time like "2%", got {given!r}')
