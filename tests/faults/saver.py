"""Saves in another process that can be killed, or made to fail, at a chosen system call."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from attrs import frozen

from tests.faults.ptrace import Call

PATIENCE = 180  # seconds; a save that hangs is killed earlier, by the server
How = (
    Literal["save", "save_async", "base", "linked", "base and linked", "step", "step, keep_last=1", "look at steps"]
    | Literal["msgpack", "safetensors", "shards", "to orbax", "to eformer", "to treaty"]
)
_ROOT = Path(__file__).parents[2]


@frozen
class Outcome:
    ended: Literal["saved", "failed", "killed"]
    message: str
    calls: tuple[Call, ...]  # that change files, with the one before which it was killed
    retried: str = ""  # how it went when the same process tried again

    @property
    def made(self) -> tuple[Call, ...]:
        return self.calls[:-1] if self.ended == "killed" else self.calls


class Saver:
    """A context manager around the process; see `tests.faults.server`."""

    def __enter__(self) -> "Saver":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.server"],
            cwd=_ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        try:
            self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._kill()

    def save(
        self,
        path: Path,
        seed: int,
        *,
        how: How = "save",
        d_in: int = 16,
        folder: Path | None = None,
        kill_at: int = 0,
        cut_at: int = 0,
    ) -> Outcome:
        """Save `run(seed, d_in)`; be killed, or have the power of the file system cut, before call number … is made.

        Calls are counted that concern what lies in `folder`: the parent of `path`, unless it is given.
        """
        at = {"folder": str(folder or path.parent), "at": kill_at or cut_at, "cut": cut_at > 0}
        return self._ask({"path": str(path), "seed": seed, "how": how, "d_in": d_in, "attempts": 1, **at})

    def save_with_errors(
        self,
        path: Path,
        seed: int,
        inject: str,
        *,
        threads: Literal["main", "all"] = "all",
        how: How = "save",
        retry: bool = False,
    ) -> Outcome:
        """Save while strace makes calls fail: `fsync:error=EIO:when=3` is the third of each thread it follows."""
        request = {"path": str(path), "seed": seed, "how": how, "d_in": 16, "attempts": 1 + retry}
        return self._ask({**request, "inject": [inject], "threads": threads})

    def _kill(self) -> None:
        """With all that it has started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _ask(self, request: dict[str, Any]) -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], PATIENCE)[0]:
            self._kill()
            raise TimeoutError(f"expected an answer within {PATIENCE} s, got none to {request}")
        answer = json.loads(self._process.stdout.readline())
        calls = tuple(Call(name, tuple(paths)) for name, paths in answer["calls"])
        message, retried = [*answer["attempts"], "", ""][:2]
        return Outcome("saved" if message == "saved" else "failed" if message else "killed", message, calls, retried)
