"""Several processes that save one state: process 0 leads; all talk through the store of JAX's distributed runtime.

Nothing runs on devices, so a save in a background thread never meets the collectives of the training step.
"""

import itertools
import json
from collections.abc import Callable
from typing import Any, Final, Protocol

import jax

from treaty.schema import TreatyError

PATIENCE: Final = 3600.0  # seconds; a peer that died is noticed earlier, by JAX's own heartbeat

_attempts = itertools.count()


class Team(Protocol):
    """The processes of one save."""

    @property
    def index(self) -> int: ...

    @property
    def count(self) -> int: ...

    def agree(self, step: str, make: Callable[[], str]) -> str:
        """What process 0 makes, on all processes; or its failure, on all processes."""

    def tell(self, error: BaseException | None) -> None:
        """Let process 0 know how this process's part of the work went."""

    def collect(self) -> None:
        """On process 0: wait for all others, and raise if one of them failed."""


class Alone:
    index = 0
    count = 1

    def agree(self, step: str, make: Callable[[], str]) -> str:
        return make()

    def tell(self, error: BaseException | None) -> None:
        pass

    def collect(self) -> None:
        pass


class Together:
    """One attempt. Every process makes its attempts in the same order, so their numbers name the same save.

    A number is never used twice, so what is left of a failed attempt cannot be taken for an answer.
    """

    def __init__(self, what: str) -> None:
        self.index = jax.process_index()
        self.count = jax.process_count()
        self._what = what
        self._prefix = f"treaty/save/{next(_attempts)}"
        self._client = _client()

    def agree(self, step: str, make: Callable[[], str]) -> str:
        key = f"{self._prefix}/{step}"
        if self.index == 0:
            try:
                value = make()
            except BaseException as error:
                self._set(key, {"what": self._what, "error": _text(error)})
                raise
            self._set(key, {"what": self._what, "value": value})
            return value
        answer = self._get(key, 0)
        if answer["what"] != self._what:
            other = TreatyError(
                f"expected all processes to save {self._what}, got process 0 that saves {answer['what']}; "
                "every process must make the same saves in the same order"
            )
            self.tell(other)
            raise other
        if "error" in answer:
            raise TreatyError(f"process 0 failed to save {self._what}: {answer['error']}")
        return str(answer["value"])

    def tell(self, error: BaseException | None) -> None:
        if self.index != 0:
            self._set(f"{self._prefix}/done/{self.index}", {"error": None if error is None else _text(error)})

    def collect(self) -> None:
        answers = [(peer, self._get(f"{self._prefix}/done/{peer}", peer)) for peer in range(1, self.count)]
        failed = [f"process {peer}: {answer['error']}" for peer, answer in answers if answer["error"] is not None]
        if failed:
            raise TreatyError(f"the save of {self._what} failed on {'; '.join(failed)}")

    def _set(self, key: str, value: Any) -> None:
        self._client.key_value_set(key, json.dumps(value))

    def _get(self, key: str, peer: int) -> Any:
        try:
            return json.loads(self._client.blocking_key_value_get(key, int(PATIENCE * 1000)))
        except jax.errors.JaxRuntimeError as error:
            raise TreatyError(
                f"the save of {self._what} failed: expected an answer of process {peer}, got {_text(error)}"
            ) from error


def team(what: str) -> Team:
    return Together(what) if jax.process_count() > 1 else Alone()


def _client() -> Any:
    from jax._src import distributed  # JAX has no public name for its client

    client = distributed.global_state.client
    if client is None:
        raise TreatyError("saving from several processes needs jax.distributed.initialize() in each of them")
    return client


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2000]
