"""What follows a save that was committed: what no rule keeps is deleted, and what dead saves have left."""

from threading import Lock

from treaty.runtime._manager.listing import Listing
from treaty.runtime._manager.retention import Rules
from treaty.runtime._manager.steps import Steps
from treaty.runtime._process.council import Council
from treaty.runtime._process.uninterrupted import Latch
from treaty.runtime._process.watching import log
from treaty.runtime.formats.directory.steps import StepName


class Tidying:
    """Done on process 0 by the thread of a save; those that end meanwhile leave it to that one, which then goes round again."""

    def __init__(self, steps: Steps, listing: Listing, rules: Rules, council: Council) -> None:
        self.writing: StepName | None = None  # the step that is being written, and is not deleted
        self._steps = steps
        self._listing = listing
        self._rules = rules
        self._council = council
        self._waiting: list[tuple[int, Latch]] = []
        self._is_busy = False
        self._lock = Lock()  # for these two

    def after(self, group: int, done: Latch) -> None:
        """`group` are keys of the council that all processes have read; `done` is set when all is deleted."""
        with self._lock:
            self._waiting.append((group, done))
            if self._is_busy:
                return
            self._is_busy = True
        while waiting := self._taken():
            try:
                self._council.forget(max(group for group, _ in waiting))
                self._delete_what_goes()
            except Exception as error:  # the step is saved, and the next save tries again
                log.warning("%s could not be tidied up: %s", self._steps.where, error)
            finally:
                for _, done in waiting:
                    done.set()

    def _taken(self) -> list[tuple[int, Latch]]:
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._is_busy = bool(waiting)
        return waiting

    def _delete_what_goes(self) -> None:
        for name, verdict in () if self._rules.is_empty else self._listing.verdicts(self._rules):
            if not verdict.kept and name != self.writing:
                self._steps.check()  # who has lost the lock decides nothing any more
                self._steps.remove(name)
        self._steps.check()
        self._steps.clean(lambda name: name == self.writing)
