"""What several processes do alike though only one of them can know it: process 0 decides, and the others hear of it.

As in `team`, all talk through the store of JAX's distributed runtime, and nothing runs on devices. Every process makes its
calls in the same order, so that their numbers name the same question. The keys lie under `treaty/council/<number of the
council>/<group>/<number of the question>`; a group is deleted when it is known that all have read it.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, Final

from treaty.runtime._process.coordinator import Patience, asked, has_left, look, member
from treaty.runtime._process.team import PATIENCE
from treaty.schema import TreatyError

_numbers = count()
_BETWEEN_LOOKS: Final = 20  # looks for an answer, between two whether the other has gone


class Council:
    """The processes that ask together; this is the one of a program that has no other."""

    index = 0
    is_shared = False  # whether there are others

    def agreed(self, decide: Callable[[], Any]) -> Any:
        """What process 0 decides, as JSON; what it raises, all raise."""
        return decide()

    def problems(self, mine: Any) -> Mapping[int, Any]:
        """What each process says went wrong, as JSON; the same on all."""
        return {} if mine is None else {0: mine}

    def notify(self) -> None:
        """Let process 0 know that this one has noticed something, once and for all."""

    def is_noticed(self) -> bool:
        """On process 0: whether another one has."""
        return False

    def turn_over(self) -> int:
        """Start a new group of keys. Returns the old group's number, for `forget` once every process has read it."""
        return 0

    def forget(self, group: int) -> None:
        """On process 0, when all are known to have read a group, and those before it."""


class SeveralProcesses(Council):
    is_shared = True

    def __init__(self, timeout: float) -> None:
        import jax

        self.index = jax.process_index()
        self._count = jax.process_count()
        self._timeout = timeout
        self._client = member()
        self._prefix = f"treaty/council/{next(_numbers)}"
        self._group = 0
        self._turn = 0
        self._forgotten = 0

    def agreed(self, decide: Callable[[], Any]) -> Any:
        key = self._next()
        if self.index == 0:
            try:
                answer = decide()
            except BaseException as error:
                self._set(key, {"error": f"process 0: {error}"})
                raise
            self._set(key, {"answer": answer})
            return answer
        found = self._wait(key, 0)
        if "error" in found:
            raise TreatyError(found["error"])
        return found["answer"]

    def problems(self, mine: Any) -> Mapping[int, Any]:
        key = self._next()
        if self.index != 0:
            self._set(f"{key}/{self.index}", {"problem": mine})
            found = self._wait(f"{key}/all", 0)
        else:
            said = {peer: self._wait(f"{key}/{peer}", peer)["problem"] for peer in range(1, self._count)}
            found = {peer: problem for peer, problem in {0: mine, **said}.items() if problem is not None}
            self._set(f"{key}/all", found)
        return {int(peer): problem for peer, problem in found.items()}

    def notify(self) -> None:
        key = f"{self._prefix}/noticed/{self.index}"
        asked(partial(self._client.key_value_set, key, "", allow_overwrite=True))

    def is_noticed(self) -> bool:
        return bool(asked(self._client.key_value_dir_get, f"{self._prefix}/noticed/"))

    def turn_over(self) -> int:
        ended = self._group
        self._group += 1
        return ended

    def forget(self, group: int) -> None:
        for old in range(self._forgotten, group + 1):
            asked(self._client.key_value_delete, f"{self._prefix}/{old}/")
        self._forgotten = max(self._forgotten, group + 1)

    def _next(self) -> str:
        self._turn += 1
        return f"{self._prefix}/{self._group}/{self._turn}"

    def _set(self, key: str, value: Any) -> None:
        asked(self._client.key_value_set, key, json.dumps(value))

    def _wait(self, key: str, peer: int) -> Any:
        patience = Patience(self._timeout)
        for number in count(1):
            text = asked(look, self._client, key)
            if text is not None:
                return json.loads(text)
            if number % _BETWEEN_LOOKS == 0 and asked(has_left, self._client, peer):
                raise TreatyError(
                    f"expected process {peer} to make the same calls of the manager, got none: it has exited"
                )
            if not patience.pause():
                raise TreatyError(
                    f"expected process {peer} to make the same calls of the manager within {self._timeout:g} s, got none"
                )


def council(timeout: float | None = None) -> Council:
    """Of all processes of this program; each must make it, in the same order."""
    import jax

    return SeveralProcesses(PATIENCE if timeout is None else timeout) if jax.process_count() > 1 else Council()
