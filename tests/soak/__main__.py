"""A campaign against saves and restores: `python -m tests.soak --minutes 10 [--seed S] [--kinds msgpack,steps]`.

Trainers save all the time; they are killed, interrupted, told to end, and find the disk full, while readers look at
what they write. One line of totals at the end. At the first fault: what it was, the seed, the directory that is kept.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import define, field

from tests.soak.log import counts

DEFAULT: Final = (
    *("msgpack", "msgpack.zst", "safetensors", "shards", "npz", "directory", "background", "steps", "manager"),
    *("orbax", "convert-orbax", "convert-directory", "convert-npz"),
)
HANG: Final = 120.0  # seconds in which a process that is alive does something
_DISK: Final = 96 * 2**20  # bytes of the disk that becomes full
_READERS: Final = 1


class Fault(Exception):
    pass


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(DEFAULT))
    options = parser.parse_args()
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # of a shell that runs this in the background, as all trainers would
        signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    campaign = Campaign(folder, options.kinds, options.seed)
    fault: Exception | None = None
    try:
        campaign.run(60 * options.minutes)
    except Fault as found:
        fault = found
    finally:
        campaign.end(keep=fault is not None)
    print(campaign.totals(), f"{int(fault is not None)} faults", sep=", ")
    if fault is not None:
        sys.exit(f"{fault}\nseed {options.seed}, kinds {options.kinds}, kept in {folder}")
    shutil.rmtree(folder)


@define
class Campaign:
    folder: Path
    kinds: str
    seed: int
    done: dict[str, int] = field(factory=dict)
    _processes: list[subprocess.Popen[bytes]] = field(factory=list)
    _logs: dict[int, Path] = field(factory=dict)  # by process id
    _is_mounted: bool = False

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    def run(self, seconds: float) -> None:
        self.disk.mkdir()
        self._mount()
        chance = random.Random(self.seed)
        end = time.monotonic() + seconds
        readers = [self._start("reader") for _ in range(_READERS)]
        first = True
        while first or time.monotonic() < end:
            first = False
            trainer = self._start("trainer", str(chance.randrange(2**32)))
            self._wait_for_saves(trainer, chance.randrange(1, 60), readers)
            if self._is_mounted and chance.random() < 0.3:
                self._fill_disk(trainer, readers)
            time.sleep(chance.uniform(0, 0.05))  # so that the signal comes at any moment of a save
            self._end(trainer, chance.choice((signal.SIGKILL, signal.SIGINT, signal.SIGTERM)))
        for reader in readers:
            self._end(reader, signal.SIGTERM)

    def totals(self) -> str:
        logged = counts([*self.folder.glob("*.log")])
        words = ("run", "save", "refused", "fork", "restore", "inspect", "verify")
        return ", ".join(f"{count} {word}" for word, count in {**{w: logged[w] for w in words}, **self.done}.items())

    def end(self, *, keep: bool) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for log in self.folder.glob("trainer*.log"):
            for line in log.read_text().splitlines():
                if line.startswith("fork "):
                    os.kill(int(line.split()[1]), signal.SIGKILL)
        if self._is_mounted and keep:
            shutil.copytree(self.disk, self.folder / "kept")
        if self._is_mounted:
            subprocess.run(["umount", "--lazy", self.disk], check=True)

    def _mount(self) -> None:
        command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(self.disk)]
        self._is_mounted = (
            shutil.which("mount") is not None and not subprocess.run(command, capture_output=True).returncode
        )
        if not self._is_mounted:
            print("no full disks: that needs root, and a system that may mount")

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"{module}-{len(self._processes)}.log"
        log.touch()
        with open(log.with_suffix(".err"), "wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", f"tests.soak.{module}", self.disk, log, self.kinds, *arguments], stderr=errors
            )
        self._processes.append(process)
        self._logs[process.pid] = log
        return process

    def _wait_for_saves(
        self, trainer: subprocess.Popen[bytes], number: int, readers: list[subprocess.Popen[bytes]]
    ) -> None:
        """Until the trainer has saved so often, and the readers have read meanwhile."""
        wanted = {trainer: number, **dict.fromkeys(readers, 1)}
        before = {process: self._lines(process) for process in wanted}
        seen = {process: (lines, time.monotonic()) for process, lines in before.items()}
        while any(seen[one][0] - before[one] < count for one, count in wanted.items()):
            for process in wanted:
                if process.poll() is not None:
                    raise Fault(f"{self._name(process)} ended by itself:\n{self._errors(process)}")
                if (lines := self._lines(process)) != seen[process][0]:
                    seen[process] = lines, time.monotonic()
                elif time.monotonic() > seen[process][1] + HANG:
                    self._raise_hang(process)
            time.sleep(0.01)

    def _fill_disk(self, trainer: subprocess.Popen[bytes], readers: list[subprocess.Popen[bytes]]) -> None:
        filler = self.disk / "filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(bytes(2**20)):
                    pass
            except OSError:
                self._count("full disk")
        self._wait_for_saves(trainer, 4, readers)  # most of them refused
        filler.unlink()
        self._wait_for_saves(trainer, 8, readers)

    def _end(self, process: subprocess.Popen[bytes], number: signal.Signals) -> None:
        self._count(number.name)
        status, deadline = None, time.monotonic() + HANG
        while status is None:
            process.send_signal(number)  # and again: Python drops what a handler raises in the hooks of a fork
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(HANG / 12)
            if time.monotonic() > deadline:
                self._raise_hang(process)
        expected = {
            signal.SIGKILL: (-signal.SIGKILL,),
            signal.SIGINT: (-signal.SIGINT, 1),
            signal.SIGTERM: (0,),
        }[number]
        errors = self._errors(process)
        if status not in expected or (status == 1 and "KeyboardInterrupt" not in errors):
            raise Fault(f"{self._name(process)} ended with status {status} after {number.name}:\n{errors}")

    def _raise_hang(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGUSR1)  # it prints its stacks
        time.sleep(1)
        raise Fault(f"{self._name(process)} hangs:\n{self._errors(process)}")

    def _count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    def _lines(self, process: subprocess.Popen[bytes]) -> int:
        return self._logs[process.pid].read_bytes().count(b"\n")

    def _name(self, process: subprocess.Popen[bytes]) -> str:
        return self._logs[process.pid].stem

    def _errors(self, process: subprocess.Popen[bytes]) -> str:
        return self._logs[process.pid].with_suffix(".err").read_text()[-4000:]


if __name__ == "__main__":
    main()
