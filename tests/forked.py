"""Commands, run in forks of one process that has imported what most of them need: a new interpreter takes ten times as long.

done = forked.run("treaty", "generate", cwd=project)      # as subprocess.run(..., capture_output=True, text=True)

It knows `treaty`, `mypy` and `python`, and for all else it is subprocess.run. Each command has a process, modules, arguments, folder and
environment of its own; what differs from a new interpreter is that JAX, mypy and Treaty's own modules are there already. Tests of what is
imported when, of builds and of hooks start interpreters.
"""

import atexit
import importlib
import io
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
_IMPORTED: Final = (
    "jax",
    "jax.numpy",
    "jaxtyping",
    "mypy.main",
    "optax",
    "treaty.cli",
    "treaty.generator._generate",
    "treaty.generator._scaffold.command",
    "treaty.generator._worker",
    "treaty.generator.commands",
    "treaty.runtime.codec",
    "treaty.runtime.commands.checkpoints",
    "treaty.runtime.commands.conversion",
    "treaty.runtime.commands.golden",
    "treaty.runtime.commands.plan",
)
_WORKER: Final = (sys.executable, "-m", "treaty.generator._worker")
_OWN: Final = (str(ROOT / "schema"), str(ROOT / "generator"), str(ROOT / "generated"), str(ROOT / "runtime"))
_real_run: Final = subprocess.run


def run(
    *command: str | Path, cwd: Path, env: Mapping[str, str] | None = None, kill: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end; with `kill`, it is killed when it has written a line that begins so, before the next."""
    words, env = [str(word) for word in command], dict(os.environ if env is None else env)
    program = "python" if words[0] == sys.executable else words[0]
    if program not in ("python", "treaty", "mypy") or any(
        name.startswith("COV") for name in env
    ):  # coverage counts processes
        return _real_run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return _server(env).run([program, *words[1:]], cwd, env, kill)


def run_like_subprocess(command: Sequence[str], **options: Any) -> Any:
    """In the place of subprocess.run of the generator: its worker, which imports the user's modules, is a fork as well."""
    if tuple(command[:3]) != _WORKER:
        return _real_run(command, **options)
    return run(*command, cwd=Path.cwd(), env=options["env"])


class _Server:
    """The process that forks, for commands that have these settings of JAX."""

    def __init__(self, env: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "tests.forked"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lock = threading.Lock()
        atexit.register(self._end)

    def _end(self) -> None:
        with self._process:  # which closes the streams, and waits
            self._process.terminate()

    def run(self, words: list[str], cwd: Path, env: Mapping[str, str], kill: str) -> "subprocess.CompletedProcess[str]":
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as folder, self._lock:
            job = {"words": words, "cwd": str(cwd), "env": dict(env), "kill": kill, "folder": folder}
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            said, told = ((Path(folder) / name).read_text() for name in ("out", "err"))
        return subprocess.CompletedProcess(words, status, said, told)


_servers: dict[tuple[Any, ...], _Server] = {}


def _server(env: Mapping[str, str]) -> _Server:
    """What is read while JAX and Python are starting has to be the same."""
    settings = {name: value for name, value in env.items() if name.startswith(("JAX_", "PYTHON"))}
    for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
        settings.pop(name, None)
    key = (os.getpid(), *sorted(settings.items()))
    if key not in _servers:
        _servers[key] = _Server({**env, "PYTHONPATH": os.pathsep.join(_OWN)})
    return _servers[key]


def main() -> None:
    """A job a line from standard input, and the exit status of each to standard output."""
    for name in _IMPORTED:
        importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            answers = None  # type: ignore[assignment]  # the parent's
            _become(job)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _become(job: Mapping[str, Any]) -> None:
    """Be the process of a job, and end. Nothing of the parent's goes on here."""
    try:
        _settle(job)
        status = _status(job["words"])
        if not job.get("is_worker"):  # else what is to be done at the end is that of the command, which goes on
            threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are no daemons
            atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        status = 70
    os._exit(status)


def _settle(job: Mapping[str, Any]) -> None:
    """Streams, folder, environment, and where modules come from."""
    for number, (name, flags) in enumerate((("", 0), ("out", os.O_WRONLY), ("err", os.O_WRONLY))):
        path = os.path.join(job["folder"], name) if name else os.devnull
        os.dup2(os.open(path, flags | (os.O_CREAT | os.O_APPEND if name else 0)), number)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = _Killed(job["kill"]) if job["kill"] else os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    sys.dont_write_bytecode = bool(job["env"].get("PYTHONDONTWRITEBYTECODE"))
    before = [path for path in sys.path if path not in (str(ROOT), "", *_OWN)]
    own = [path for path in job["env"].get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [os.getcwd(), *own, *_OWN, *before]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    _fork_workers_too(set(sys.modules))


def _status(words: Sequence[str]) -> int:
    program, *sys.argv = words
    try:
        if program == "python":
            _run_python(sys.argv)
        elif program == "mypy":
            sys.modules["mypy.main"].main(args=sys.argv, clean_exit=True)
        else:
            sys.modules["treaty.cli"].main(sys.argv, prog_name="treaty")
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _run_python(words: Sequence[str]) -> None:
    first, *rest = words
    if first == "-m":
        sys.argv = rest
        if rest[0] == "treaty.cli":  # it is imported already, and runpy warns of that
            sys.modules["treaty.cli"].main(rest[1:], prog_name="python -m treaty.cli")
        else:
            sys.modules.pop(rest[0], None)
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        module = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec", dont_inherit=True), vars(module))
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(first))
        runpy.run_path(first, run_name="__main__")


def _fork_workers_too(known: set[str]) -> None:
    """The generator's worker, which it starts as a process, is a fork of the command, while that has imported nothing of the user."""

    def is_clean() -> bool:
        files = [getattr(sys.modules[name], "__file__", None) or "" for name in set(sys.modules) - known]
        return all(file.startswith((sys.prefix, sys.base_prefix, str(ROOT / "tests"), *_OWN)) for file in files if file)

    def forked(command: Any, **options: Any) -> Any:
        if not isinstance(command, list) or tuple(command[:3]) != _WORKER or not is_clean():
            return _real_run(command, **options)
        with tempfile.TemporaryDirectory() as folder:
            child = os.fork()
            if not child:
                job = {"words": ["python", *command[1:]], "cwd": os.getcwd(), "env": dict(options["env"]), "kill": ""}
                _become({**job, "folder": folder, "is_worker": True})
            _, status = os.waitpid(child, 0)
            said, told = ((Path(folder) / name).read_text() for name in ("out", "err"))
        return subprocess.CompletedProcess(command, os.waitstatus_to_exitcode(status), said, told)

    setattr(subprocess, "run", forked)  # noqa: B010 - mypy forbids to assign it


class _Killed(io.TextIOWrapper):
    """A standard output that kills its process at a line. A parent who reads the line may come when the program has ended."""

    def __init__(self, line: str) -> None:
        super().__init__(os.fdopen(1, "wb", closefd=False), line_buffering=True)
        self._line = line

    def write(self, text: str) -> int:
        written = super().write(text)
        if text.startswith(self._line):
            super().write("\n")
            os.kill(os.getpid(), signal.SIGKILL)
        return written


if __name__ == "__main__":
    main()
