"""The store of JAX's distributed runtime: where the processes of a program leave each other words.

A program has one session with it for as long as its client lives; one that exits says so there.
"""

import atexit
import os
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, Final

import jax

from treaty.runtime._process.uninterrupted import go_on
from treaty.schema import TreatyError

LEFT: Final = "treaty/left"  # under it, the processes that have exited
_LONGEST_PAUSE: Final = 0.5  # seconds between two looks at the store
_SHORTEST_PAUSE: Final = 0.002


class Session:
    """The saves of this process through one client of the distributed runtime."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.taken = 0
        self._turns = count()
        self.skipped = 0  # saves that the others made, and gave up, without this process
        self.unread: set[str] = set()  # saves to whose end this process no longer listens
        self.has_left = False
        self.process = os.getpid()

    def take(self) -> int:
        """A number of its own. Under no lock: a signal handler may take one while the main thread does."""
        turn = next(self._turns)
        self.taken = turn + 1
        return turn


class Patience:
    """Pauses that grow with the time that has passed, up to a limit. A call that was interrupted ends in one of them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._start = time.monotonic()

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self._start >= self._seconds

    def pause(self) -> bool:
        waited = time.monotonic() - self._start
        if waited >= self._seconds:
            return False
        go_on()
        time.sleep(min(max(_SHORTEST_PAUSE, waited / 10), _LONGEST_PAUSE, self._seconds - waited))
        return True


_sessions: dict[int, Session] = {}  # by the number of the client, which each holds


def take_turn() -> tuple[Session, int]:
    found = _present_session()
    turn = found.take()
    if found.has_left:
        found.has_left = False
        found.client.key_value_delete(f"{LEFT}/{jax.process_index()}")
    return found, turn


def _present_session() -> Session:
    """Where the runtime was started anew, another: so are the numbers."""
    client = _client_of_runtime()
    return _sessions.setdefault(id(client), Session(client))


@atexit.register
def _leave() -> None:
    """Let those who wait for this process know that it will not come."""
    found = _sessions.get(id(_client_or_none()))
    if found is not None and found.process == os.getpid():  # not a fork that ends
        found.has_left = True
        with suppress(jax.errors.JaxRuntimeError):
            found.client.key_value_set(f"{LEFT}/{jax.process_index()}", "", allow_overwrite=True)


def asked(function: Callable[..., Any], *args: Any) -> Any:
    """What the client answers, or an error of ours."""
    try:
        return function(*args)
    except jax.errors.JaxRuntimeError as error:
        raise TreatyError(f"expected an answer of JAX's coordinator, got {error}"[:2000]) from error


def look(client: Any, key: str) -> Any:
    """What is at a key of the store, if something is."""
    try:
        return client.key_value_try_get(key)
    except jax.errors.JaxRuntimeError as error:
        if "NOT_FOUND" in str(error):
            return None
        raise


def has_left(client: Any, peer: int) -> bool:
    """Whether a process has said that it exits."""
    return look(client, f"{LEFT}/{peer}") is not None


def member() -> Any:
    """The client of one who takes part: that it exits will be told."""
    return _present_session().client


def _client_of_runtime() -> Any:
    client = _client_or_none()
    if client is None:
        raise TreatyError("saving from several processes needs jax.distributed.initialize() in each of them")
    return client


def _client_or_none() -> Any:
    from jax._src import distributed  # JAX has no public name for its client

    return distributed.global_state.client
