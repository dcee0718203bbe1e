"""Signals by which a machine says that it will be taken away: noted at any moment, and chained to who listened before."""

import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Any, Final
from weakref import WeakSet

from treaty.runtime._errors import InvalidArgumentError

_Handler = Any  # of the signal module: a function, or one of its constants


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
