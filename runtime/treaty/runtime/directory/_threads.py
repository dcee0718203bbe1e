"""Threads for work that waits for a disk or a store."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

Job = Callable[[], None]


class Workers:
    """At most `count` threads, each started when there is work for it; a context manager that waits for all work.

    Not a ThreadPoolExecutor: that takes no work once the interpreter shuts down, while a save may still be under way.
    Where no thread can be started any more, the caller does the work. The first error is raised at the end; what is
    still to be done then is left, unless it is to be `always` done.
    """

    def __init__(self, count: int, name: str, *, always: bool = False) -> None:
        self.error: BaseException | None = None
        self._count = count
        self._name = name
        self._always = always
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.error = self.error or error
        self.wait()

    def add(self, job: Job) -> None:
        if len(self._threads) < self._count and not self._start() and not self._threads:
            self._do(job)
        else:
            self._jobs.put(job)

    def wait(self) -> None:
        """Until all is done. More may be added afterwards."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []
        if self.error is not None:
            raise self.error

    def _start(self) -> bool:
        thread = threading.Thread(target=self._work, name=self._name)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is shutting down, or the system has no more threads
            return False
        self._threads.append(thread)
        return True

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._do(job)

    def _do(self, job: Job) -> None:
        if self.error is None or self._always:
            try:
                job()
            except BaseException as error:
                self.error = self.error or error
