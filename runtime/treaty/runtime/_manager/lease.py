"""The lock of a manager in an object store: an object that says who writes, renewed for as long as that one has it."""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from threading import Lock
from typing import Any, Final

from treaty.runtime._manager.lock import taken, who
from treaty.runtime._process.repeating import Repeating
from treaty.runtime._process.uninterrupted import go_on, uninterrupted
from treaty.runtime._process.watching import log
from treaty.runtime.formats.directory import owner
from treaty.runtime.formats.directory.remote import Remote
from treaty.runtime.formats.directory.steps import HOME
from treaty.schema import TreatyError

LEASE: Final = 60.0  # seconds without a renewal after which the manager of another machine is taken for dead
LOOK: Final = 5.0  # seconds between two looks at its lock
RENEW: Final = 10.0  # seconds between two renewals

_LOCK: Final = f"{HOME}/lock"


class Lease:
    """Held from when it is made. Each writing is on the condition that the object is still as this one knows it."""

    def __init__(self, store: Remote) -> None:
        self._store = store
        self._owner = owner.take_name()
        self._said = {**who(), "owner": self._owner, "started": owner.started(os.getpid())}
        self._beats = count()
        self._generation = b""
        self._is_lost = False
        self._turn = Lock()  # of who talks with the store
        self._renewing: Repeating | None = None
        try:
            self._take()
        except BaseException:
            self.release()
            raise

    @uninterrupted
    def check(self) -> None:
        """That nobody has taken it, which a manager of another machine does when it was not renewed for a minute."""
        with self._turn:
            self._look()
        if self._is_lost:
            raise TreatyError(
                f"expected to hold the lock of {self._store.where}, got that of another manager or none: it was not renewed for "
                f"{LEASE:.0f} s; stop the other run, or make a new manager"
            )

    @uninterrupted
    def release(self) -> None:
        if self._renewing is not None:
            self._renewing.end()
        with suppress(TreatyError):
            if self._generation:
                self._look()
                if not self._is_lost:
                    self._store.write(_LOCK, None, if_equal=self._generation)
        owner.release_name(self._owner)

    @uninterrupted
    def _take(self) -> None:
        found = self._store.read(_LOCK)
        if found.state == "value":
            self._wait_for_its_end(bytes(found.value), found.stamp.generation)
        self._generation = found.stamp.generation
        self._write()
        if self._is_lost:
            now = self._store.read(_LOCK)
            raise taken(self._store.where, bytes(now.value) if now.state == "value" else b"")
        self._renewing = Repeating("treaty-lease", self._renew, RENEW)

    def _renew(self) -> None:
        """What fails is tried again; who is about to save looks whether the lock is still there."""
        with suppress(TreatyError), self._turn:
            if not self._is_lost:
                self._write()

    def _write(self) -> None:
        content = json.dumps({**self._said, "beats": next(self._beats)}).encode()
        generation = self._store.write(_LOCK, content, if_equal=self._generation).generation
        if generation:
            self._generation = generation
        else:
            self._look()

    def _look(self) -> None:
        """What names this one as its owner is its own: of a write that was done, the answer may have been lost."""
        found = self._store.read(_LOCK)
        if found.state == "value" and _said_in(bytes(found.value)).get("owner") == self._owner:
            self._generation = found.stamp.generation
        else:
            self._is_lost = True

    def _wait_for_its_end(self, content: bytes, generation: bytes) -> None:
        """Of a process of this machine it is known; of others, that they do not renew it any more."""
        said = _said_in(content)
        theirs, started = said.get("owner"), said.get("started")
        if type(theirs) is not str or not owner.is_name(theirs):
            return
        if owner.is_dead(theirs, started if type(started) is int else None):
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
            if self._store.read(_LOCK).stamp.generation != generation:
                raise taken(self._store.where, content)


def _said_in(content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if type(found) is dict else {}
