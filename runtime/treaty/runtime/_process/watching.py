"""Saves and restores as figures: a line each on the log `treaty`, and a call of whoever watches.

One that fails is told as well: of a save in the background nobody else may hear for long.
"""

import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Literal, Self

from attrs import frozen

log: Final = logging.getLogger("treaty")
PAUSE: Final = 10.0  # seconds between two lines on one save

_hooks: "list[Callable[[Transfer], object]]" = []


@frozen
class Transfer:
    """One save or restore, when it has ended. `nbytes` are those of its arrays, on this process."""

    what: Literal["save", "restore"]
    path: str
    nbytes: int
    seconds: float  # from the call to the commit, or to the result
    blocked: float  # seconds of these in which the caller waited
    note: str = ""  # what was inferred: of an earlier revision, and of sizes that nobody gave
    error: BaseException | None = None  # what made it fail

    @property
    def bytes_per_second(self) -> float:
        return self.nbytes / self.seconds if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.what} of {self.path} failed after {self.seconds:.3g} s: {self.error}"
        waited = "" if self.blocked == self.seconds else f", of which the caller waited {self.blocked:.3g} s"
        speed = self.bytes_per_second / 1e9
        return f"{self.what} of {self.path}: {self.nbytes} bytes in {self.seconds:.3g} s, {speed:.3g} GB/s{waited}{self.note and ', '}{self.note}"


def watch(hook: Callable[[Transfer], object]) -> Callable[[], None]:
    """Call `hook` with the figures of every save and restore of this process, until the function that is returned is called.

    It is called by the thread that ends the work, which for a save in the background is not the caller's. What it raises
    goes to the log, and nowhere else.
    """

    def call(transfer: Transfer) -> object:  # a function of its own for each call of `watch`
        return hook(transfer)

    def stop() -> None:
        if call in _hooks:
            _hooks.remove(call)

    _hooks.append(call)
    return stop


class Measure:
    """A context manager around a save or restore. Whoever knows the bytes sets `nbytes`."""

    def __init__(self, what: Literal["save", "restore"], path: str) -> None:
        self.nbytes = 0
        self.note = ""
        self._what: Final = what
        self._path: Final = path
        self._start = time.perf_counter()
        self._blocked: float | None = None
        self._told = self._start
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end(error)

    @property
    def is_wanted(self) -> bool:
        return bool(_hooks) or log.isEnabledFor(logging.INFO)

    def hand_over(self) -> None:
        """From now on the caller does not wait."""
        self._blocked = time.perf_counter() - self._start

    def around(self, work: Callable[[], Any]) -> Callable[[], None]:
        """Work that another thread does."""
        held = [work]  # given up before it ends, and with it the arrays

        def measured() -> None:
            with self:
                held.pop()()

        return measured

    def advance(self, count: int) -> None:
        """So many bytes more are written. Called by several threads, of which one may tell what another has counted."""
        self._done += count
        now = time.perf_counter()
        if now - self._told >= PAUSE:
            self._told = now
            share = f", {100 * self._done / self.nbytes:.0f}%" if self.nbytes else ""
            log.info("%s of %s: %d bytes%s after %.0f s", self._what, self._path, self._done, share, now - self._start)

    def end(self, error: BaseException | None) -> None:
        if not self.is_wanted:
            return
        seconds = time.perf_counter() - self._start
        blocked = seconds if self._blocked is None else self._blocked
        transfer = Transfer(self._what, self._path, self.nbytes, seconds, blocked, self.note, error)
        log.info("%s", transfer)  # a failure as well: it is an error for the caller, and told as one
        for hook in list(_hooks):
            try:
                hook(transfer)
            except Exception:
                log.exception("what watches the %s of %s failed", self._what, self._path)
