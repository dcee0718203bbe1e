"""Many saves of one process with a manager, and what stays of them in it: `python -m tests.soak.growth --saves 2000`.

Steps are linked, deleted, and restored by a reader beside; now and then one fails, and now and then the manager is closed and made
anew. After a warm-up there is no thread and no file descriptor more, and no memory but what the allocator keeps.
"""

import argparse
import gc
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import frozen

from tests.soak.kinds import KINDS, close_manager
from tests.soak.states import at_step, step_of
from treaty.schema import TreatyError

WARM_UP: Final = 20  # saves
ROOM: Final = 16 * 2**20  # bytes; a state that was not let go would be three mebibytes
_READ, _FAIL, _ANEW = 5, 7, 11  # every so many saves


@frozen
class Usage:
    """What a process holds."""

    memory: int  # bytes, resident
    threads: int
    descriptors: int

    def __str__(self) -> str:
        return f"{self.memory / 2**20:.1f} MiB, {self.threads} threads, {self.descriptors} file descriptors"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.growth")
    parser.add_argument("--saves", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        before, after = measured(Path(folder) / "run", options.saves)
    print(f"after {WARM_UP} saves: {before}; after {options.saves} more: {after}")
    if grown(before, after):
        sys.exit("expected no more than before")


def measured(folder: Path, saves: int) -> tuple[Usage, Usage]:
    """After the warm-up, and after so many saves more."""
    before = usage()
    for step in range(1, WARM_UP + saves + 1):
        _turn(folder, step)
        if step == WARM_UP:
            close_manager(folder)
            before = usage()
    close_manager(folder)
    return before, usage()


def grown(before: Usage, after: Usage) -> bool:
    return (
        after.threads > before.threads or after.descriptors > before.descriptors or after.memory > before.memory + ROOM
    )


def usage() -> Usage:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    threads, descriptors = (len(os.listdir(f"/proc/self/{name}")) for name in ("task", "fd"))
    return Usage(pages * os.sysconf("SC_PAGESIZE"), threads, descriptors)


def _turn(folder: Path, step: int) -> None:
    kind = KINDS["manager"]
    if step % _FAIL == 0:
        kind.wait(folder)
        (folder / str(step)).write_text("in the way")
    kind.save(folder, at_step(step))
    if step % _FAIL == 0:
        with suppress(TreatyError):
            kind.wait(folder)
        (folder / str(step)).unlink()
    if step % _READ == 0:
        kind.wait(folder)
        assert step_of(kind.restore(folder)) in (step, step - 1)
    if step % _ANEW == 0:
        close_manager(folder)


if __name__ == "__main__":
    main()
