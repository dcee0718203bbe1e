"""Where steps lie, as a manager sees it: a directory of this machine, or a prefix of an object store."""

from collections.abc import Callable
from typing import Any, Protocol

from treaty.runtime._process.watching import log
from treaty.runtime.formats.directory.steps import StepName, names_at, path_of


class Held(Protocol):
    """The lock of the one that writes."""

    def check(self) -> None:
        """That it still is the own one."""

    def release(self) -> None: ...


class Steps(Protocol):
    """What it is asked for. Names are of steps, committed or not."""

    where: str  # as it was given
    path: str
    _lock: Held | None

    def __init__(self, where: str, path: str) -> None:
        self.where = where
        self.path = path
        self._lock = None

    def check_place(self) -> None:
        """That this is, or may become, a directory of steps."""

    def take(self) -> None:
        """Become the one that writes, and remove what dead ones have left."""
        self._lock = self._locked()
        try:
            self.clean(lambda _: False)
        except OSError as error:  # which is no reason not to go on
            log.warning("%s could not be tidied up: %s", self.where, error)
        except BaseException:
            self.give_back()
            raise

    def _locked(self) -> Held: ...

    def check(self) -> None:
        """That this still is the one that writes."""
        assert self._lock is not None
        self._lock.check()

    def give_back(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def begin(self, name: StepName) -> None:
        """Called before a step is written."""
        self.check()

    def names(self) -> list[StepName]:
        """Of all steps, the newest first, committed or not."""
        return names_at(self.path)

    def path_of(self, name: StepName) -> str:
        return path_of(self.path, name)

    def is_committed(self, name: StepName) -> bool: ...

    def mark(self, name: StepName) -> object:
        """What a manifest is known by: another one has another mark. None where there is none."""

    def manifest(self, name: StepName) -> bytes | None: ...

    def protected(self, name: StepName) -> str:
        """Why a step is not a manager's to delete, as far as its name tells; what is in it is looked at when it is deleted."""
        return ""

    def pins(self) -> set[StepName]: ...

    def pin(self, name: StepName) -> None: ...

    def unpin(self, name: StepName) -> None: ...

    def write_rules(self, data: Any) -> None: ...

    def rules(self) -> Any: ...

    def remove(self, name: StepName) -> None:
        """What fails is on the log: the others shall go all the same, or the disk would be full some day."""

    def clean(self, is_written: Callable[[StepName], bool]) -> None:
        """Delete what killed saves and removals have left; not what is being written, which is asked step by step."""
