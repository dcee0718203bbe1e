"""Saving in the background: the caller waits until the state is safe from changes only. Saves of one process run in order."""

import atexit
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from treaty.runtime.directory._places import PathLike, place_of
from treaty.runtime.directory._plan import plan_save, snapshot
from treaty.runtime.directory._processes import PATIENCE, team
from treaty.runtime.directory._write import write

_last: "SaveHandle | None" = None
_unseen: "list[SaveHandle]" = []  # failed, and nobody asked for the result
_lock = threading.RLock()  # a save that runs where it was asked for takes it twice


class SaveHandle:
    """A save under way. A failure that nobody asks for is told on standard error when the interpreter exits."""

    def __init__(self, where: str, work: Callable[[], None], before: "SaveHandle | None") -> None:
        self.where = where
        self._finished = threading.Event()
        self._error: BaseException | None = None
        if not _started(threading.Thread(target=self._run, args=(work, before), name="treaty-save")):
            self._run(work, before)

    def done(self) -> bool:
        """Whether the save has ended, well or not."""
        return self._finished.is_set()

    def result(self, timeout: float | None = None) -> None:
        """Wait for the save, and raise what made it fail; TimeoutError if it takes longer than `timeout` seconds."""
        if not self._finished.wait(timeout):
            raise TimeoutError(f"the save to {self.where} is still under way after {timeout} s")
        with _lock:
            if self in _unseen:
                _unseen.remove(self)
        if self._error is not None:
            raise self._error

    def _run(self, work: Callable[[], None], before: "SaveHandle | None") -> None:
        if before is not None:
            before._finished.wait()
        try:
            work()
        except BaseException as error:
            del work, before
            _forget(error)
            self._error = error
            with _lock:
                _unseen.append(self)
        finally:
            self._finished.set()


def save(
    path: PathLike,
    state: Any,
    *,
    cls: Any = None,
    metadata: Mapping[str, Any] | None = None,
    timeout: float = PATIENCE,
) -> None:
    """Write a checkpoint, and return when it is committed. An earlier one at `path` stays until then.

    Every process of a distributed program calls this with the same path and state, and waits for the others for
    `timeout` seconds. `metadata` is anything that JSON holds.
    """
    with team(timeout) as processes:
        plan = plan_save(state, cls, metadata)
        place = place_of(path)
        _wait_for_earlier()
        write(place, plan, processes)


def save_async(
    path: PathLike,
    state: Any,
    *,
    cls: Any = None,
    metadata: Mapping[str, Any] | None = None,
    timeout: float = PATIENCE,
) -> SaveHandle:
    """Like `save`, but return as soon as the state may change, or be donated: arrays of numpy and of accelerators are copied.

    Saves of one process are written in the order of these calls; each holds its arrays until they are written.
    """
    global _last
    with team(timeout) as processes:
        plan = snapshot(plan_save(state, cls, metadata))
        place = place_of(path)
        work = partial(write, place, plan, processes)
        with _lock:
            before = _last
            _last = handle = SaveHandle(place.where, work, before if before and not before.done() else None)
    return handle


def _wait_for_earlier() -> None:
    with _lock:
        earlier = _last
    if earlier is not None:
        earlier._finished.wait()


def _started(thread: threading.Thread) -> bool:
    """The interpreter waits for threads that are no daemons, but not for those that begin while it exits."""
    if not threading.main_thread().is_alive():
        return False
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def _forget(error: BaseException | None) -> None:
    """The frames of a failed save would keep its arrays for as long as someone keeps the error."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


@atexit.register
def _tell_failures() -> None:
    for handle in _unseen:
        print(f"treaty: the save to {handle.where} failed: {handle._error}", file=sys.stderr)
