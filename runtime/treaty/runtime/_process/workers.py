"""Threads for work that waits for a disk or a store."""

import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from treaty.runtime._process.uninterrupted import Latch, Stopped, Task, doing, task_of_this_thread

THREADS: Final = 8  # more than there may be processors: they wait
Job = Callable[[], None]
_T = TypeVar("_T")
_R = TypeVar("_R")


class Workers:
    """At most `count` threads, each started when there is work for it; a context manager that waits for all work.

    Not a ThreadPoolExecutor: that takes no work once the interpreter shuts down, while a save may still be under way,
    and its threads are daemons where a daemon starts them. Where no thread can be started any more, the caller does
    the work. The first error is raised at the end; what is still to be done then, or when the call that all this is
    for was interrupted, is left, unless it is to be `always` done. Not for the main thread: see `uninterrupted`.
    """

    def __init__(self, count: int, name: str, *, always: bool = False) -> None:
        self.error: BaseException | None = None
        self._count = count
        self._name = name
        self._always = always
        self._task: Task[Any] | None = task_of_this_thread()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.error = self.error or error
        self.wait()

    def add(self, job: Job) -> None:
        self._put(lambda: self._do(job))

    def begin(self, function: Callable[[], _T]) -> Callable[[], _T]:
        """Start to make a value; what is returned waits for it, and raises what went wrong."""
        made: list[_T] = []
        failed: list[BaseException] = []
        ended = Latch()

        def job() -> None:
            try:
                self._check()
                made.append(function())
            except BaseException as error:
                failed.append(error)
            ended.set()

        def wait() -> _T:
            ended.wait()
            if failed:
                raise failed[0]
            return made[0]

        self._put(job)
        return wait

    def wait(self) -> None:
        """Until all is done. More may be added afterwards."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []
        if self.error is not None:
            raise self.error

    def _put(self, job: Job) -> None:
        if len(self._threads) < self._count and not self._start() and not self._threads:
            job()
        else:
            self._jobs.put(job)

    def _start(self) -> bool:
        if sys.is_finalizing():
            return False
        thread = threading.Thread(target=self._work, name=self._name, daemon=False)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is shutting down, or the system has no more threads
            return False
        self._threads.append(thread)
        return True

    def _work(self) -> None:
        with doing(self._task):
            while (job := self._jobs.get()) is not None:
                job()
                del job  # and with it the arrays that it holds

    def _do(self, job: Job) -> None:
        try:
            if not self._always:
                self._check()
            job()
        except BaseException as error:
            self.error = self.error or error

    def _check(self) -> None:
        """Nothing more is begun after a failure."""
        if self.error is not None:
            raise Stopped
        if self._task is not None:
            self._task.go_on()


def in_threads(name: str, function: Callable[[_T], _R], items: Iterable[_T], count: int = THREADS) -> list[_R]:
    """The function's results for all items, in order; the first failure is raised when nothing is under way any more."""
    with Workers(count, name) as workers:
        waiting = [workers.begin(partial(function, item)) for item in items]
        return [wait() for wait in waiting]
