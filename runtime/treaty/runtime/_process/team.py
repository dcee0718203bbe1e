"""Several processes that save one state: process 0 leads; all talk through the store of JAX's distributed runtime.

Nothing runs on devices, so a save in a background thread never meets the collectives of the training step. The keys of
a save lie under `treaty/save/<its number>/`, and are gone when every process has heard how it ended:

  begin    process 0 to all: where the data goes, and a digest of what it saves
  done/2   process 2 to process 0: it has done its part, or why not
  over/2   process 0 to process 2: the checkpoint is committed, or why not; process 2 removes it
"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Self

import jax

from treaty.runtime._process.coordinator import LEFT, Patience, asked, look, take_turn
from treaty.runtime._process.uninterrupted import Stopped
from treaty.schema import TreatyError

PATIENCE: Final = 3600.0  # seconds; a process that died is noticed earlier, by JAX's own heartbeat
LAST_WORDS: Final = 10.0  # seconds for one that is leaving: it may still save as it exits

_BETWEEN_CHECKS: Final = 1.0  # seconds, while there is work to do


class Team:
    """The processes of one save; this is the one of a program that has no other. Inside `with`, a failure of this process is
    told to the others."""

    index = 0
    count = 1
    where = ""  # what is saved; empty until that is known

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self.fail(error)

    def begin(self, opening: Mapping[str, Any]) -> None:
        """On process 0: let the others begin."""

    def collect(self) -> Mapping[int, Any]:
        """On process 0: what all others said when they were done; an error as soon as one of them failed."""
        return {}

    def end(self) -> None:
        """On process 0: tell the others that the checkpoint is committed."""

    def opening(self, mine: list[str]) -> Any:
        """On the others: what process 0 began with. `mine` tells this save from others."""
        raise AssertionError

    def done(self, answer: Mapping[str, Any]) -> None:
        """On the others: the own part is written."""
        raise AssertionError

    def wait(self) -> None:
        """On the others: return when the checkpoint is committed."""
        raise AssertionError

    def fail(self, error: BaseException) -> None:
        """Tell the others that this process failed, once."""

    def check(self, *, now: bool = False) -> None:
        """Raise if it is known already that the save will fail; costs nothing most of the time, but for `now`."""

    def failure(self, message: str) -> TreatyError:
        """An error that all processes shall raise in these words."""
        raise AssertionError


class Together(Team):
    """One save. Every process makes its saves in the same order, so their numbers name the same save.

    The number is taken before anything can fail, and is never used twice.
    """

    def __init__(self, timeout: float) -> None:
        self.index = jax.process_index()
        self.count = jax.process_count()
        self.where = ""
        self._timeout = timeout
        self._session, self._turn = take_turn()
        self._client = self._session.client
        self._mine: list[str] = []
        self._late: Mapping[
            str, Any
        ] = {}  # told to processes for which this save waited in vain: they come to another one
        self._is_told = False  # the others know how this process's part went
        self._words: str | None = None
        self._next_check = time.monotonic() + _BETWEEN_CHECKS
        self._tidy()

    def fail(self, error: BaseException) -> None:
        if self._is_told:
            return
        self._is_told = True
        words = self._words or f"{self._this} failed on process {self.index}: {_text(error)}"
        with suppress(TreatyError):  # why the save failed is being told already
            if self.index == 0:
                self._conclude({"error": words})
            else:
                self._session.unread.add(self._prefix)
                self._set(f"done/{self.index}", {"error": _text(error)})

    def begin(self, opening: Mapping[str, Any]) -> None:
        self._mine = opening["mine"]
        self._answers()  # one may have failed before this one came
        self._set("begin", opening)

    def collect(self) -> Mapping[int, Any]:
        patience = Patience(self._timeout)
        leaving: Patience | None = None
        while True:
            self._late = {}
            answers = self._answers()
            missing = [peer for peer in range(1, self.count) if peer not in answers]
            if not missing:
                return answers
            self._late = {"late": self._mine}
            if not patience.pause():
                raise self.failure(f"expected {_named(missing)} to be done within {self._timeout:g} s, got no answer")
            gone = [peer for peer in missing if peer in self._left()]
            leaving = (leaving or Patience(LAST_WORDS)) if gone else None
            if leaving is not None and leaving.is_over:
                raise self.failure(f"expected an answer of {_named(gone)}, got none: it has exited")

    def end(self) -> None:
        self._is_told = True
        self._conclude({})

    def opening(self, mine: list[str]) -> Any:
        patience = Patience(self._timeout)
        while True:
            over = self._take_over()
            if over is not None and over.get("late", mine) != mine:
                # The others waited for this process in vain, in a save that it never made: this one comes after that.
                self._session.skipped += 1
                patience = Patience(self._timeout)
                continue
            if over is not None:
                self._raise(over)
            begun = self._get("begin")
            if begun is not None:
                return begun
            if not patience.pause():
                raise self.failure(f"expected process 0 to begin within {self._timeout:g} s, got no answer")

    def done(self, answer: Mapping[str, Any]) -> None:
        self._is_told = True
        self._set(f"done/{self.index}", answer)

    def wait(self) -> None:
        patience = Patience(self._timeout)
        try:
            while (over := self._take_over()) is None:
                if not patience.pause():
                    raise self.failure(
                        f"expected an answer of process 0 within {self._timeout:g} s, got none; it may still commit"
                    )
        except BaseException:
            self._session.unread.add(self._prefix)  # and not before: the next save takes away what is in there
            raise
        self._raise(over)

    def check(self, *, now: bool = False) -> None:
        if time.monotonic() < self._next_check and not now:
            return
        self._next_check = time.monotonic() + _BETWEEN_CHECKS
        if self.index == 0:
            self._answers()
        elif (over := self._take_over()) is not None:
            self._raise(over)

    def failure(self, message: str) -> TreatyError:
        self._words = f"{self._this} failed: {message}"
        return TreatyError(self._words)

    @property
    def _this(self) -> str:
        return f"the save of {self.where}" if self.where else "a save"

    @property
    def _prefix(self) -> str:
        return f"treaty/save/{self._turn + self._session.skipped}"

    def _answers(self) -> dict[int, Any]:
        answers = self._said()
        failed = [f"process {peer}: {answer['error']}" for peer, answer in answers.items() if "error" in answer]
        if failed:
            self._words = f"{self._this} failed on {'; '.join(failed)}"
            raise TreatyError(self._words)
        return answers

    def _said(self) -> dict[int, Any]:
        found = self._call(self._client.key_value_dir_get, f"{self._prefix}/done/")
        return dict(sorted((int(key.rpartition("/")[2]), json.loads(text)) for key, text in found))

    def _left(self) -> set[int]:
        return {int(key.rpartition("/")[2]) for key, _ in self._call(self._client.key_value_dir_get, f"{LEFT}/")}

    def _conclude(self, answer: Mapping[str, Any]) -> None:
        """Tell all who may still listen; those who failed themselves do not."""
        said = self._said()
        for peer in range(1, self.count):
            if "error" not in said.get(peer, {}):
                self._set(f"over/{peer}", {**answer, **({} if peer in said else self._late)})
        self._call(self._client.key_value_delete, f"{self._prefix}/begin")
        self._call(self._client.key_value_delete, f"{self._prefix}/done")

    def _take_over(self) -> Any:
        """How the save ended, if it has; what this process has at the store goes."""
        over = self._get(f"over/{self.index}")
        if over is not None:
            self._forget(self._prefix)
        return over

    def _forget(self, prefix: str) -> None:
        self._call(self._client.key_value_delete, f"{prefix}/over/{self.index}")
        self._call(self._client.key_value_delete, f"{prefix}/done/{self.index}")

    def _tidy(self) -> None:
        """Remove what came for this process after it had stopped to listen."""
        for prefix in list(self._session.unread):
            said, came = (self._look(f"{prefix}/{kind}/{self.index}") for kind in ("done", "over"))
            if came is not None:
                self._forget(prefix)
            if came is not None or said is None:
                self._session.unread.discard(prefix)

    def _raise(self, over: Mapping[str, Any]) -> None:
        if "error" in over:
            self._is_told = True
            raise TreatyError(over["error"])

    def _set(self, key: str, value: Any) -> None:
        self._call(self._client.key_value_set, f"{self._prefix}/{key}", json.dumps(value))

    def _get(self, key: str) -> Any:
        text = self._look(f"{self._prefix}/{key}")
        return None if text is None else json.loads(text)

    def _look(self, key: str) -> Any:
        return self._call(look, self._client, key)

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return asked(function, *args)
        except TreatyError as error:
            raise self.failure(str(error)) from error


def team(timeout: float = PATIENCE) -> Team:
    """The processes of the next save; made before anything of it can fail. `timeout` is for waits, in seconds."""
    return Together(timeout) if jax.process_count() > 1 else Team()


def _named(peers: list[int]) -> str:
    return "process " + " and ".join(map(str, peers)) if len(peers) < 3 else f"processes {', '.join(map(str, peers))}"


def _text(error: BaseException) -> str:
    if isinstance(error, Stopped):
        return "it was interrupted"
    return f"{type(error).__name__}: {error}"[:2000]
