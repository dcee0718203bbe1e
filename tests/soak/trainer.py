"""A training loop that saves all the time, in every way: `python -m tests.soak.trainer FOLDER LOG KINDS SEED`.

It goes on from what it finds, which must be a whole state. Now and then it forks a worker that outlives it.
"""

import errno
import faulthandler
import os
import random
import signal
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from tests.soak.kinds import KINDS
from tests.soak.log import Log
from tests.soak.states import Block, Training, at_step, step_of
from treaty.runtime import IncompleteCheckpointError
from treaty.schema import TreatyError

_FULL = ("No space left", "ENOSPC", "RESOURCE_EXHAUSTED", "Resource exhausted")


def main(folder: Path, log: Log, names: list[str], seed: int) -> None:
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    warnings.simplefilter("ignore")  # that forking with threads is dangerous
    chance = random.Random(seed)
    state = at_step(_found(folder, names) + 1)
    log.add("run")
    while True:
        for name in names:
            _save(folder, name, state, log)
        if chance.random() < 0.2:
            _fork(log)
        state = _next(state)


def _found(folder: Path, names: list[str]) -> int:
    """The newest step of all that lies there."""
    steps = [0]
    for name in names:
        (folder / name).mkdir(exist_ok=True)
        with suppress(FileNotFoundError, IncompleteCheckpointError):  # nothing was saved yet
            steps.append(step_of(KINDS[name].restore(folder / name)))
        if name == "steps":  # one that was never finished must not be in the way
            steps += [int(one) for one in os.listdir(folder / name) if one.isdecimal()]
    return max(steps)


def _save(folder: Path, name: str, state: Training, log: Log) -> None:
    try:
        KINDS[name].save(folder / name, state)
        log.add(f"save {name} {int(state.step)}")
    except (OSError, TreatyError) as error:
        if not (getattr(error, "errno", None) == errno.ENOSPC or any(text in str(error) for text in _FULL)):
            raise
        log.add(f"refused {name} {int(state.step)}")


_advance = jax.jit(lambda blocks: jax.tree.map(lambda array: array + 1, blocks), donate_argnums=0)


def _next(state: Training) -> Training:
    """The step after, in memory that a save in the background may still look at."""
    np.add(state.seen, 1, out=state.seen)
    blocks: tuple[Block, ...] = _advance(state.blocks)
    step = jnp.int32(int(state.step) + 1)
    return Training(step=step, blocks=blocks, seen=state.seen, rate=state.rate + 1 / 8)


def _fork(log: Log) -> None:
    if process := os.fork():
        log.add(f"fork {process}")
        return
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Log(Path(sys.argv[2])), sys.argv[3].split(","), int(sys.argv[4]))
