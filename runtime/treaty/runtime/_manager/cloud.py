"""Steps in an object store, which has no renames, no directories and no locks, but conditional writes.

A store lists every object under a prefix, so that to find steps by their files would mean to list all chunks. The manager
notes the name of a step before it writes it, in an object of no use but for its name; the manifest alone makes it a step.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from treaty.runtime._errors import InvalidArgumentError, MissingCheckpointError
from treaty.runtime._manager.lease import Lease
from treaty.runtime._manager.steps import Steps
from treaty.runtime._process.watching import log
from treaty.runtime.formats.directory.remote import Remote
from treaty.runtime.formats.directory.steps import HOME, NOTED, StepName, step_name
from treaty.schema import TreatyError

_PINS: Final = f"{HOME}/pins/"
_RULES: Final = f"{HOME}/rules.json"
_NOTE: Final = b"{}\n"


class CloudSteps(Steps):
    """What a manager does with a prefix of an object store."""

    def __init__(self, url: str) -> None:
        super().__init__(url.rstrip("/"), url.rstrip("/"))
        self._store = Remote(self.where)
        self._marks: dict[StepName, bytes] = {}  # of manifests, as they were seen last
        self._read: dict[StepName, bytes] = {}  # a manifest that was just looked at, for who reads it next

    def check_place(self) -> None:
        if self._store.manifest() is not None:
            raise InvalidArgumentError(f"expected a prefix of steps, got one checkpoint at {self.where}")

    def _locked(self) -> Lease:
        return Lease(self._store)

    def begin(self, name: StepName) -> None:
        super().begin(name)
        self._store.write(f"{NOTED}{name}", _NOTE)

    def is_committed(self, name: StepName) -> bool:
        return self.mark(name) is not None

    def mark(self, name: StepName) -> object:
        """One that is as it was is not sent again."""
        known = self._marks.pop(name, None)
        found, content = Remote(self.path_of(name)).changed(known)
        if content is not None:
            self._read = {name: content}
        if found is not None:
            self._marks[name] = found
        return found

    def manifest(self, name: StepName) -> bytes | None:
        seen = self._read.pop(name, None)
        return Remote(self.path_of(name)).manifest() if seen is None else seen

    def pins(self) -> set[StepName]:
        found = (step_name(key.removeprefix(_PINS)) for key in self._store.keys(_PINS))
        return {name for name in found if name is not None}

    def pin(self, name: StepName) -> None:
        """First, and then it is looked whether the step is still there: who deletes looks for pins after that."""
        self._store.write(f"{_PINS}{name}", _NOTE)
        if not self.is_committed(name):
            self.unpin(name)
            raise MissingCheckpointError(f"expected step {name} to be there, got none in {self.where}")

    def unpin(self, name: StepName) -> None:
        self._store.write(f"{_PINS}{name}", None)

    def write_rules(self, data: Any) -> None:
        content = json.dumps(data).encode()
        if self._content(_RULES) != content:
            self._store.write(_RULES, content)

    def rules(self) -> Any:
        try:
            return json.loads(self._content(_RULES) or b"null")
        except (ValueError, RecursionError):
            return None

    def remove(self, name: StepName) -> None:
        try:
            # Who pins later finds no step.
            if not Remote(self.path_of(name)).remove(wanted=lambda: name not in self.pins()):
                return
        except MissingCheckpointError:
            pass  # it is gone, which was wanted
        except TreatyError as error:  # another object lies there, or the store does not answer
            log.warning("step %s of %s is not deleted: %s", name, self.where, error)
            return
        log.info("step %s of %s is deleted", name, self.where)
        self._forget(name)

    def clean(self, is_written: Callable[[StepName], bool]) -> None:
        """A save of another manager that goes on all the same cannot commit after this: it noted no mark."""
        for name in self.names():
            if is_written(name) or name in self._marks:
                continue
            try:
                if self.is_committed(name):
                    continue
                Remote(self.path_of(name)).remove(is_committed=False)
            except TreatyError as error:
                log.warning("step %s of %s is left as it is: %s", name, self.where, error)
            else:
                self._forget(name)

    def _forget(self, name: StepName) -> None:
        self._marks.pop(name, None)
        self.unpin(name)
        self._store.write(f"{NOTED}{name}", None)

    def _content(self, key: str) -> bytes | None:
        found = self._store.read(key)
        return bytes(found.value) if found.state == "value" else None
