"""Signals by which a machine says that it will be taken away, and what they mean for a loop that saves.

A signal is noted at any moment, and who listened before hears of it, too. What came to one process all hear of by the next call
that they make together.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Any, Final
from weakref import WeakSet

from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._process.council import Council

_Handler = Any  # of the signal module: a function, or one of its constants


class Preemption:
    """Which of the calls of `save` and `preempted` acts on a signal; alike on all processes, but for the watch."""

    def __init__(self, signals: Iterable[int], council: Council) -> None:
        numbers = tuple(signals)
        self._watch = SignalWatch(numbers) if numbers else None
        self._council = council
        self._is_passed_on = False  # to process 0, by another one
        self._is_told = False  # the program has been told
        self._has_saved = False
        self._was_save_called = False  # since the program asked last

    @property
    def is_watched(self) -> bool:
        return self._watch is not None

    def pass_on(self) -> None:
        """On every process, before process 0 decides."""
        if self._council.index != 0 and self._is_mine() and not self._is_passed_on:
            self._council.notify()
            self._is_passed_on = True

    def is_noticed(self) -> bool:
        """On process 0: whether a signal came to any of them."""
        return self._is_mine() or (self.is_watched and self._council.is_noticed())

    def wants_save(self, is_noticed: bool) -> bool:
        return is_noticed and not self._has_saved

    def save_is_called(self) -> None:
        self._was_save_called = True

    def save_is_done(self, is_noticed: bool) -> None:
        """The call of `save` knew whether a signal had come, and saved for it, or need not."""
        if is_noticed:
            self._is_told = self._has_saved = True

    def asked(self) -> bool:
        """A program that calls `save` before it asks is told when `save` has saved, and ends its loop; one that only asks, at once."""
        was_save_called, self._was_save_called = self._was_save_called, False
        if not self._is_told and not was_save_called:
            self.pass_on()
            self._is_told = bool(self._council.agreed(self.is_noticed))
        return self._is_told

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()

    def _is_mine(self) -> bool:
        return self._watch is not None and self._watch.noticed is not None


class SignalWatch:
    """Until it is closed, signals are noted instead of ending the process. A handler that was there is called as well."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self.noticed: int | None = None  # the first that came
        self._process = os.getpid()
        self._before: dict[int, _Handler] = {}
        self._is_open = True
        self._handle: Callable[[int, FrameType | None], None] = self._note  # one object, to be compared
        if threading.current_thread() is not threading.main_thread():
            raise InvalidArgumentError(
                "expected the main thread, got another one: with on_preemption a manager is made where Python takes handlers"
            )
        _open.add(self)
        for number in numbers:
            self._before[number] = signal.getsignal(number)
            signal.signal(number, self._handle)

    def close(self) -> None:
        """Give the handlers back. One that was put over ours meanwhile stays, and ours then only passes signals on."""
        self._is_open = False
        _open.discard(self)
        if threading.current_thread() is not threading.main_thread() or os.getpid() != self._process:
            return
        self._give_back()

    def _give_back(self) -> None:
        for number, before in self._before.items():
            if signal.getsignal(number) is self._handle:
                signal.signal(number, signal.SIG_DFL if before is None else before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        is_ours = self._is_open and os.getpid() == self._process
        if is_ours and self.noticed is None:
            self.noticed = number
        before = self._before.get(number)
        if callable(before):
            before(number, frame)
        elif not is_ours and before != signal.SIG_IGN:  # what the system does, as if nobody listened
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def signals_of(given: object) -> tuple[int, ...]:
    """What `on_preemption` says: True is SIGTERM."""
    if given is None or given is False:
        return ()
    if given is True:
        return (signal.SIGTERM,)
    numbers = [given] if isinstance(given, int) else list(given) if isinstance(given, Iterable) else []
    if not numbers or not all(isinstance(one, int) and one in _POSSIBLE for one in numbers):
        raise InvalidArgumentError(f"expected on_preemption=True, or signals that can be noticed, got {given!r}")
    return tuple(int(one) for one in numbers)


_POSSIBLE: Final = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
_open: "WeakSet[SignalWatch]" = WeakSet()


def _in_child() -> None:
    """A forked worker is ended by signals as ever."""
    for one in list(_open):
        one._is_open = False
        with suppress(ValueError):  # not in the main thread
            one._give_back()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
