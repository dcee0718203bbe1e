"""Steps in an object store, which has no renames, no directories and no locks, but conditional writes.

A store lists every object under a prefix, so that to find steps by their files would mean to list all chunks. The manager
notes the name of a step before it writes it, in an object of no use but for its name; the manifest alone makes it a step.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import tensorstore as ts

from treaty.runtime._errors import InvalidArgumentError, MissingCheckpointError
from treaty.runtime._manager.lock import taken, who
from treaty.runtime._process.uninterrupted import go_on, uninterrupted
from treaty.runtime._process.watching import log
from treaty.runtime.formats.directory import owner
from treaty.runtime.formats.directory.remote import Remote
from treaty.runtime.formats.directory.steps import HOME, NOTED, StepName, names_at, path_of, step_name
from treaty.schema import TreatyError

LEASE: Final = 60.0  # seconds without a renewal after which the manager of another machine is taken for dead
LOOK: Final = 5.0  # seconds between two looks at its lock
RENEW: Final = 10.0  # seconds between two renewals

_LOCK: Final = f"{HOME}/lock"
_PINS: Final = f"{HOME}/pins/"
_RULES: Final = f"{HOME}/rules.json"
_NOTE: Final = b"{}\n"


class CloudSteps:
    """What a manager does with a prefix of an object store."""

    def __init__(self, url: str) -> None:
        self.where = url.rstrip("/")
        self._store = Remote(self.where)
        self._lock: _Lease | None = None
        self._read: dict[StepName, bytes] = {}  # manifests that were just looked at, for who reads them next

    def check_place(self) -> None:
        if self._store.manifest() is not None:
            raise InvalidArgumentError(f"expected a prefix of steps, got one checkpoint at {self.where}")

    def take(self) -> None:
        self._lock = _Lease(self._store)
        try:
            self.clean(lambda _: False)
        except BaseException:
            self.give_back()
            raise

    def hold(self) -> None:
        if self._lock is not None:
            self._lock.renew()

    def give_back(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def begin(self, name: StepName) -> None:
        assert self._lock is not None
        self._lock.check()
        self._store.write(f"{NOTED}{name}", _NOTE)

    def names(self) -> list[StepName]:
        return names_at(self.where)

    def path_of(self, name: StepName) -> str:
        return path_of(self.where, name)

    def is_committed(self, name: StepName) -> bool:
        content = Remote(self.path_of(name)).manifest()
        if content is None:
            return False
        self._read = {name: content}
        return True

    def manifest(self, name: StepName) -> bytes | None:
        seen = self._read.pop(name, None)
        return Remote(self.path_of(name)).manifest() if seen is None else seen

    def mark(self, name: StepName) -> object:
        return None

    def protected(self, name: StepName) -> str:
        return ""

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
            if is_written(name) or self.is_committed(name):
                continue
            try:
                Remote(self.path_of(name)).remove(is_committed=False)
            except TreatyError as error:
                log.warning("step %s of %s is left as it is: %s", name, self.where, error)
            else:
                self._forget(name)

    def _forget(self, name: StepName) -> None:
        self.unpin(name)
        self._store.write(f"{NOTED}{name}", None)

    def _content(self, key: str) -> bytes | None:
        found = self._store.read(key)
        return bytes(found.value) if found.state == "value" else None


class _Lease:
    """An object that says who writes, written on the condition that it is still one's own, again and again."""

    def __init__(self, store: Remote) -> None:
        self._store = store
        self._owner = owner.take_name()
        self._said = {**who(), "owner": self._owner}
        self._beats = 0
        self._renewed = time.monotonic()
        self._renewal: Any = None  # TensorStore's future
        try:
            self._generation = self._take()
        except BaseException:
            owner.release_name(self._owner)
            raise

    @uninterrupted
    def _take(self) -> bytes:
        found = self._store.read(_LOCK)
        if found.state == "value":
            self._wait_for_its_end(found)
        return self._written(found.stamp.generation, found)

    def renew(self) -> None:
        """Without waiting: what comes of it is looked at before the next step is written."""
        if self._renewal is None and time.monotonic() - self._renewed >= RENEW:
            self._renewed = time.monotonic()
            self._beats += 1
            self._renewal = self._store.begin_write(_LOCK, self._content(), self._generation)
        elif self._renewal is not None and self._renewal.done():
            self._settle()

    def check(self) -> None:
        self._settle()
        if self._store.read(_LOCK).stamp.generation != self._generation:
            raise self._lost()

    @uninterrupted
    def release(self) -> None:
        with suppress(TreatyError):
            self._settle()
            self._store.write(_LOCK, None, if_equal=self._generation)
        owner.release_name(self._owner)

    def _settle(self) -> None:
        renewal, self._renewal = self._renewal, None
        if renewal is None:
            return
        generation = self._store.ended(renewal, _LOCK).generation
        if generation:
            self._generation = generation
        elif (found := self._store.read(_LOCK)).state == "value" and bytes(found.value) == self._content():
            self._generation = found.stamp.generation  # the answer was lost, and it was sent again
        else:
            raise self._lost()

    def _wait_for_its_end(self, found: ts.KvStore.ReadResult) -> None:
        """Of a process of this machine it is known; of others, that they do not renew it any more."""
        content = bytes(found.value)
        theirs = _owner_in(content)
        if theirs is None or owner.is_dead(theirs):
            return
        if owner.is_here(theirs):
            raise taken(self._store.where, content)
        log.warning(
            "%s is locked by another machine: waiting for %.0f s whether that is alive", self._store.where, LEASE
        )
        end = time.monotonic() + LEASE
        while time.monotonic() < end:
            go_on()
            time.sleep(LOOK)
            if self._store.read(_LOCK).stamp.generation != found.stamp.generation:
                raise taken(self._store.where, content)

    def _written(self, before: bytes, found: ts.KvStore.ReadResult) -> bytes:
        generation = self._store.write(_LOCK, self._content(), if_equal=before).generation
        if not generation:
            now = self._store.read(_LOCK)
            if now.state != "value" or bytes(now.value) != self._content():
                raise taken(self._store.where, bytes(now.value) if now.state == "value" else b"")
            generation = now.stamp.generation
        return bytes(generation)

    def _content(self) -> bytes:
        return json.dumps({**self._said, "beats": self._beats}).encode()

    def _lost(self) -> TreatyError:
        return TreatyError(
            f"expected the lock of {self._store.where} as it was, got another manager's or none: this one was silent for too long; "
            "make a new manager"
        )


def _owner_in(content: bytes) -> str | None:
    try:
        found = json.loads(content)["owner"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if type(found) is str and owner.is_name(found) else None
