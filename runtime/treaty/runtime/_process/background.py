"""Saving in the background: the caller waits until the state is safe from changes only.

Saves of one process are written in order, one at a time, and the next one begins when the last is finished, so that
never two copies of a state are held. What the main thread starts here is started by the helper of `uninterrupted`: Ctrl-C
either comes before, and there is no save, or finds one that is on its way and in its place in the order.
"""

import atexit
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from treaty.runtime._process.uninterrupted import Latch, uninterrupted
from treaty.schema import TreatyError

Then: TypeAlias = Callable[[BaseException | None], None]  # with what made the save fail

_last: "SaveHandle | None" = None
_under_way: "set[SaveHandle]" = set()
_unseen: "list[SaveHandle]" = []  # failed, and nobody asked for the result
_lock = threading.RLock()  # for the order of saves; again by a signal handler, where no helper can be had


class SaveHandle:
    """A save under way. A failure that nobody asks for is told on standard error when the interpreter exits."""

    def __init__(self, where: str, work: Callable[[], None] | None = None, then: "Then | None" = None) -> None:
        self.where = where
        self._work = work
        self._then = then  # what this thread does when the save has ended, and nobody waits for it
        self._finished = Latch()
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Whether the save has ended, well or not."""
        return self._finished.is_set()

    def result(self, timeout: float | None = None) -> None:
        """Wait for the save, and raise what made it fail; TimeoutError if it takes longer than `timeout` seconds."""
        if not self._finished.wait(timeout):
            raise TimeoutError(f"the save to {self.where} is still under way after {timeout} s")
        with suppress(ValueError):
            _unseen.remove(self)  # under no lock: a signal handler may ask, too
        if self._error is not None:
            raise self._error

    def failure(self) -> BaseException | None:
        """Wait for the save, and give what made it fail; it is not taken as told by that."""
        self._finished.wait()
        return self._error

    def _run(self, before: "SaveHandle | None") -> None:
        if before is not None:
            before._finished.wait()
        work, self._work = self._work, None
        assert work is not None
        try:
            work()
            del work  # and with it the arrays
        except BaseException as error:
            del work, before
            _forget(error)
            self._error = error
            _unseen.append(self)
        finally:
            self._end()
        if self._then is not None:
            self._then(self._error)

    def _end(self) -> None:
        _under_way.discard(self)
        self._finished.set()

    def _is_left_to_parent(self) -> None:
        self._error = TreatyError(
            f"this process was forked while the save to {self.where} was under way; the parent does it"
        )
        self._end()


def wait_for_earlier() -> None:
    """Until the save that is under way has ended, well or not."""
    earlier = _last
    if earlier is not None:
        earlier._finished.wait()


@uninterrupted
def begin(where: str, work: Callable[[], None], then: Then | None = None) -> SaveHandle:
    """Start a save, after the last one that another thread may have started meanwhile."""
    global _last
    handle = SaveHandle(where, work, then)
    with _lock:
        before, _last = _last, handle
    _under_way.add(handle)
    if before is not None and before.done():
        before = None
    # Not a daemon, also where a daemon asks for it: the interpreter waits for it.
    if not _started(threading.Thread(target=handle._run, args=(before,), name="treaty-save", daemon=False)):
        handle._run(before)
    return handle


def _started(thread: threading.Thread) -> bool:
    """The interpreter waits for its threads before it exits, but not for those that begin while it does."""
    if not threading.main_thread().is_alive():
        return False
    try:
        thread.start()
    except RuntimeError:  # the system has no more threads
        return False
    return True


def _forget(error: BaseException | None) -> None:
    """The frames of a failed save would keep its arrays for as long as someone keeps the error."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


@atexit.register
def _tell_failures() -> None:
    wait_for_earlier()  # which a daemon may be writing itself
    for handle in _unseen if sys.stderr is not None else ():
        print(f"treaty: the save to {handle.where} failed: {handle._error}", file=sys.stderr)


def _in_child() -> None:
    """The saves of a process that forked are the parent's."""
    global _last, _lock
    _last = None
    _unseen.clear()
    for handle in list(_under_way):
        handle._is_left_to_parent()
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
