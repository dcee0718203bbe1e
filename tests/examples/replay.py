"""Replays the pages that lead from a script without Treaty to one with it: python -m tests.examples.replay < JOBS

One process imports what all need, and forks one for each command, which is much cheaper than to start them all.
"""

import io
import json
import os
import runpy
import shutil
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import equinox  # noqa: F401 - imported once, for all
import mypy.main
import optax  # noqa: F401
import orbax.checkpoint  # noqa: F401

import treaty.cli


def main() -> None:
    """Jobs from standard input, a JSON list; what came of each goes to standard output, the same."""
    print(json.dumps([done(job) for job in json.load(sys.stdin)]))


def done(job: dict[str, Any]) -> dict[str, Any]:
    if "write" in job:
        Path(job["write"]).parent.mkdir(parents=True, exist_ok=True)
        Path(job["write"]).write_text(job["text"])
    elif "copy" in job:
        shutil.copytree(job["copy"], job["to"])
    else:
        return _run(job)
    return {}


def _run(job: dict[str, Any]) -> dict[str, Any]:
    """Run a command in its folder; where the job says so, it is killed when it has told of a step, and before the next."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        os.dup2(write, 1)
        os.dup2(write, 2)
        os.chdir(job["cwd"])
        if job["kill"]:
            sys.stdout = _Killed(f"step {job['kill']} ")
        os._exit(_status(job["command"].split()))
    os.close(write)
    with open(read) as output:
        said = output.read()
    _, status = os.waitpid(child, 0)
    return {"said": said, "status": os.waitstatus_to_exitcode(status)}


class _Killed(io.TextIOWrapper):
    """A standard output that kills its process at a line. A parent who reads the line may come when the program has ended."""

    def __init__(self, line: str) -> None:
        super().__init__(open(1, "wb", closefd=False), line_buffering=True)
        self._line = line

    def write(self, text: str) -> int:
        written = super().write(text)
        if text.startswith(self._line):
            self.write("\n")
            os.kill(os.getpid(), signal.SIGKILL)
        return written


def _status(words: list[str]) -> int:
    """As the shell would have it, with the folder where Python looks for modules first."""
    program, *sys.argv = words
    sys.path.insert(0, os.getcwd())
    try:
        if program == "python":
            runpy.run_path(sys.argv[0], run_name="__main__")
        elif program == "treaty":
            treaty.cli.main(sys.argv, prog_name="treaty")
        elif program == "mypy":
            mypy.main.main(args=sys.argv, clean_exit=True)
        else:
            raise ValueError(f"expected python, treaty or mypy, got {program}")
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    main()
