"""A process that forks children, which save and restore: first of a parent that has used nothing, then of one that has.

Prints a line of JSON for each child: how it was made, when, and what became of all that it tried.
"""

import faulthandler
import json
import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from tests.soak.states import Training, at_step, step_of
from treaty.runtime import restore, save, save_async
from treaty.schema import TreatyError

HANG = 60.0


def main(folder: Path, how: str) -> None:
    def child(stage: str, state: Training | None) -> None:
        _report(how, stage, folder / stage, state)

    fork: Callable[..., None] = _by_os if how == "os.fork" else _by_multiprocessing
    warnings.simplefilter("ignore")  # Python's and JAX's own: that forking with threads is dangerous
    fork(child, "fresh", None)
    state = at_step(7)
    save(folder / "of the parent.msgpack", state)
    fork(child, "after jax", state)
    save(folder / "of the parent", state)
    fork(child, "after a save", state)
    gate = _hold_saves()
    handle = save_async(folder / "of the parent", state)
    gate.begun.wait(HANG)
    fork(child, "during a save", state)
    gate.opened.set()
    handle.result()
    pending = jax.jit(lambda x: jnp.linalg.matrix_power(x, 4).sum().astype(jnp.int32))(jnp.ones((1000, 1000)))
    fork(child, "during a computation", Training(step=pending, blocks=state.blocks, seen=state.seen, rate=state.rate))


class _Gate:
    def __init__(self) -> None:
        self.begun, self.opened = threading.Event(), threading.Event()


def _hold_saves() -> _Gate:
    """Saves stop when they hold their lock, until the gate is opened."""
    from treaty.runtime.formats.directory.places import Local

    gate = _Gate()
    prepare = Local.prepare

    def held(self: Local, data: str) -> None:
        gate.begun.set()
        assert gate.opened.wait(HANG)
        prepare(self, data)

    Local.prepare = held  # type: ignore[method-assign]
    return gate


def _by_os(child: Callable[[str, Any], None], stage: str, state: Training | None) -> None:
    if process := os.fork():
        os.waitpid(process, 0)
        return
    try:
        child(stage, state)
    finally:
        os._exit(0)


def _by_multiprocessing(child: Callable[[str, Any], None], stage: str, state: Training | None) -> None:
    process = multiprocessing.get_context("fork").Process(target=child, args=(stage, state))
    process.start()
    process.join()


def _report(how: str, stage: str, folder: Path, given: Training | None) -> None:
    from treaty.runtime.formats.directory.places import Local

    if Local.prepare.__name__ == "held":
        Local.prepare = lambda self, data: (self.path / data).mkdir()  # type: ignore[method-assign]
    faulthandler.dump_traceback_later(HANG, exit=True)
    folder.mkdir()
    state = at_step(7) if given is None else given
    parent = folder.parent / "of the parent"
    tries: dict[str, Callable[[], Any]] = {
        "msgpack": lambda: save(folder / "a.msgpack", state),
        "safetensors": lambda: save(folder / "a.safetensors", state, max_shard_bytes=2**20),
        "directory": lambda: save(folder / "a", state),
        "background": lambda: save_async(folder / "b", state).result(),
        "restored": lambda: step_of(restore(folder / "a.msgpack", Training)),
        "restored to numpy": lambda: step_of(restore(folder / "a.safetensors.index.json", Training, into="numpy")),
        "restored from a directory": lambda: step_of(
            restore(parent if parent.exists() else folder / "a", Training, into="numpy")
        ),
    }
    found = {}
    for name, attempt in tries.items():
        try:
            found[name] = "ok" if attempt() in (None, 7) else "wrong"
        except FileNotFoundError:
            found[name] = "not there"
        except TreatyError as error:
            found[name] = str(error)
    print(json.dumps({"how": how, "stage": stage, **found}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
