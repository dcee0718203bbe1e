"""Looks at what the trainers save, all the time: `python -m tests.soak.reader FOLDER LOG KINDS`.

What it sees is always one step, whole, and never an earlier one than it has seen before.
"""

import faulthandler
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from tests.soak.kinds import KINDS
from tests.soak.log import Log
from tests.soak.states import step_of
from treaty.runtime import IncompleteCheckpointError, inspect, verify


def main(folder: Path, log: Log, names: list[str]) -> None:
    faulthandler.register(signal.SIGUSR1)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    seen = dict.fromkeys(names, 0)
    while not stopped:
        for name in names:
            with suppress(FileNotFoundError, IncompleteCheckpointError):  # nothing was saved yet
                step = step_of(KINDS[name].restore(folder / name))
                log.add(f"restore {name} {step}")
                if step < seen[name]:
                    raise AssertionError(f"expected step {seen[name]} or a later one, got {step} in {name}")
                seen[name] = step
            for path in _directories(folder / name):
                with suppress(FileNotFoundError, IncompleteCheckpointError):
                    inspect(path)
                    log.add(f"inspect {name}")
                    verify(path)
                    log.add(f"verify {name}")


def _directories(folder: Path) -> list[Path]:
    if folder.name in ("directory", "background"):
        return [folder / "it"]
    if folder.name in ("steps", "manager") and folder.is_dir():
        return [folder / name for name in os.listdir(folder) if name.isdecimal()]
    return []


if __name__ == "__main__":
    main(Path(sys.argv[1]), Log(Path(sys.argv[2])), sys.argv[3].split(","))
