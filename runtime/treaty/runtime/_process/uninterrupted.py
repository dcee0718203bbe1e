"""Work that no signal handler breaks into, so that what it takes (locks, files, threads) is always given back.

Python runs signal handlers in the main thread, between any two of its steps: Ctrl-C, or a handler that calls sys.exit,
raises there also between `os.open` and the `try` after it, inside `Thread.start`, or in the middle of a `finally`. No
arrangement of such statements has no gap. So the main thread does not do such work. It hands it to a helper, a thread
in which no handler runs, and waits; when an exception comes out of the wait, it asks the helper to stop, waits until it
has (a second Ctrl-C does not shorten that), and raises the exception. The work asks `go_on` at points where it may end.

Why there is no gap:
- The main thread holds nothing. It puts a task into a queue, which is one step of C, and waits on a lock of its own.
  `threading.Event` would not do: its wait is Python, and has gaps.
- A task that is in the queue is done and cleans up after itself, whether or not somebody waits: if exceptions come so
  close together that one escapes from the very lines that wait, the caller goes on early, and nothing else is lost. The
  helper takes tasks in order, so a later call begins when an abandoned one has ended, and the interpreter's exit waits.
- A task may be put twice, and is done once. A helper may be started twice; the second waits until it is needed.

Handlers may call what is guarded like this: the helper then does that after what it is at. Other threads are never
interrupted, and do their work themselves. A process has one helper, since to start a thread takes as long as a small save.
"""

import _thread
import atexit
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial, wraps
from queue import Empty, SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar, overload

from treaty.schema import TreatyError

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Stopped(BaseException):
    """Raised in the work of a call that was interrupted; its caller sees what interrupted it."""


@overload
def uninterrupted(function: Callable[_P, _T]) -> Callable[_P, _T]: ...
@overload
def uninterrupted(*, undo: Callable[[_T], object]) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]: ...
def uninterrupted(function: Any = None, *, undo: Callable[[Any], object] | None = None) -> Any:
    """A function that, called by the main thread, is done by the helper.

    Of one whose result must be given back, `undo` is called with a result that nobody gets, the caller being interrupted.
    """
    if function is None:
        return partial(uninterrupted, undo=undo)

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if (
            threading.get_ident() != threading.main_thread().ident or sys.is_finalizing()
        ):  # then no other thread goes on
            return function(*args, **kwargs)
        return _by_helper(Task(partial(copy_context().run, function, *args, **kwargs)), undo)

    return guarded


def go_on() -> None:
    """End the work here if the call that it is for was interrupted."""
    task = task_of_this_thread()
    if task is not None:
        task.go_on()


class Latch:
    """An Event for the main thread: an exception may leave `wait` at any point."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: set[_thread.LockType] = set()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Once."""
        self._is_set = True
        for gate in list(self._waiting):
            gate.release()

    def wait(self, timeout: float | None = None) -> bool:
        gate = _thread.allocate_lock()
        gate.acquire()
        self._waiting.add(gate)  # before the question: whoever sets it meanwhile finds the gate, or is seen
        if not self._is_set:
            gate.acquire(True, -1 if timeout is None else max(0, min(timeout, _thread.TIMEOUT_MAX)))
        self._waiting.discard(gate)
        return self._is_set


class Task(Generic[_T]):
    """A piece of work for the helper, and how it ended."""

    def __init__(self, work: Callable[[], _T]) -> None:
        self.result: _T | None = None
        self.error: BaseException | None = None
        self.is_stopping = False
        self.ended = Latch()
        self._work: Callable[[], _T] | None = work
        self._claim = _thread.allocate_lock()

    def go_on(self) -> None:
        if self.is_stopping:
            raise Stopped

    def run(self) -> None:
        """Unless it was run already."""
        if not self._claim.acquire(False):
            return
        work, self._work = self._work, None
        assert work is not None
        try:
            with doing(self):
                self.go_on()
                self.result = work()
        except BaseException as error:
            self.error = error
        del work
        self.ended.set()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.ended.set()


class _Desk:
    """Where the main thread leaves tasks for the helper."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[Task[Any]] = SimpleQueue()
        self.open: set[Task[Any]] = set()
        self.turn = _thread.allocate_lock()
        self.has_helper = False

    def take(self, task: Task[Any]) -> None:
        self.open.add(task)
        self.tasks.put(task)
        if not self.has_helper:
            try:
                _thread.start_new_thread(self._bring_helper, ())
            except RuntimeError:  # there are no more threads to be had: then the main thread does it, come what may
                self._do_all()

    def _do_all(self) -> None:
        with suppress(Empty):
            while True:
                self._do(self.tasks.get_nowait())

    def _do(self, task: Task[Any]) -> None:
        task.run()
        self.open.discard(task)

    def _bring_helper(self) -> None:
        """In a thread of its own, since no call of Thread.start may be interrupted."""
        try:
            threading.Thread(target=self._serve, name="treaty", daemon=True).start()
        except RuntimeError:
            self._serve()

    def _serve(self) -> None:
        with self.turn:
            self.has_helper = True
            while True:
                self._do(self.tasks.get())


_desk = _Desk()
_of_this_thread = threading.local()


def task_of_this_thread() -> Task[Any] | None:
    return getattr(_of_this_thread, "task", None)


@contextmanager
def doing(task: Task[Any] | None) -> Iterator[None]:
    """While it lasts, this thread works for the task."""
    outer = task_of_this_thread()
    _of_this_thread.task = task
    try:
        yield
    finally:
        _of_this_thread.task = outer


def _by_helper(task: Task[Any], undo: Callable[[Any], object] | None = None) -> Any:
    interrupted: BaseException | None = None
    try:
        while not task.ended.is_set():
            try:
                _desk.take(task)
                task.ended.wait()
            except BaseException as error:
                task.is_stopping = True
                interrupted = error
        if interrupted is not None:
            raise interrupted
        if task.error is not None:
            raise task.error
        return task.result
    except BaseException:
        if undo is not None and task.result is not None:
            _by_helper(Task(partial(undo, task.result)))
        raise
    finally:
        del task, interrupted  # with their tracebacks they would keep this frame, and what its callers hold


@atexit.register
def _wait_for_abandoned() -> None:
    for task in list(_desk.open):
        task.is_stopping = True
        _desk.take(task)
        task.ended.wait()


def _in_child() -> None:
    """After a fork the helper is missing. Whoever waits for it in the child, a handler having forked, is told so."""
    global _desk
    left, _desk = _desk, _Desk()
    for task in list(left.open):
        if not task.ended.is_set():
            task.fail(
                TreatyError("this process was forked while a save or a restore was under way; the parent does it")
            )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
