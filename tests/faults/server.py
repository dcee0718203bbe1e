"""A process that saves on request, each time in a fork of itself, so that hundreds of saves can be killed quickly.

It has imported everything and never uses TensorStore itself, whose threads a fork would lose. Requests and answers are
lines of JSON on standard input and output; `tests.faults.saver` is the other end.
"""

import json
import mmap
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, Final, NoReturn

import jax

import treaty.runtime
from tests.faults import images, ptrace, states
from treaty.runtime import CheckpointManager
from treaty.runtime._convert.convert import convert
from treaty.runtime._process.uninterrupted import uninterrupted
from treaty.runtime.directory import save, save_async
from treaty.runtime.formats import orbax as orbax
from treaty.runtime.formats.directory import owner as _owner
from treaty.runtime.formats.directory import plan as _plan
from treaty.runtime.formats.directory.save import write_tree as write_tree  # before the fork, with TensorStore
from treaty.runtime.formats.directory.source import DirectorySource as DirectorySource
from treaty.runtime.formats.msgpack.files import pack as pack
from treaty.runtime.formats.msgpack.instances import save_file as save_file
from treaty.runtime.formats.npz.source import NpzSource as NpzSource
from treaty.runtime.formats.orbax.source import OrbaxSource as OrbaxSource
from treaty.runtime.formats.safetensors.source import SafetensorsSource as SafetensorsSource
from treaty.runtime.formats.table import FORMATS


def _convert(path: str, state: Any, to: str) -> None:
    """From a file that an earlier request has made, which lies outside of the watched folder."""
    source = f"{os.path.dirname(os.path.dirname(path))}/source-{int(state.step)}.msgpack"
    convert(source, path, to_format=to, replace=True)


def _save_base(path: str, state: Any) -> None:
    """With other rows above, so that some chunks of the state are as in here, and some are not."""
    state.kernel[0] = 0
    save(path, state)


def _save_with_base(path: str, state: Any) -> None:
    """On a base that this very process has committed before: of its files it knows that they last."""
    base = f"{os.path.dirname(os.path.dirname(path))}/base"
    _save_base(base, states.run(int(state.step), state.kernel.shape[0]))
    save(path, state, base=base)


def _save_step(path: str, state: Any, **rules: Any) -> None:
    """All that a run does of which a manager keeps the steps, for one of them."""
    with CheckpointManager(path, states.Run, **rules) as manager:
        manager.save(int(state.step), states.later(int(state.step), state.kernel.shape[0]))


def _look_at_steps(path: str, _: Any) -> None:
    """Both steps of the run are whole; where the disk does not give the newer one, it is the older."""
    reader = CheckpointManager(path, states.Run, read_only=True)
    found = reader.restore(into="numpy")
    assert states.bits(found) == states.bits(states.later(int(found.step)))
    assert len({*reader.all_steps(), *(one.step for one in reader.plan())}) >= 2


_SAVES: Final[dict[str, Callable[[str, Any], None]]] = {
    "save": save,
    "save_async": lambda path, state: save_async(path, state).result(),
    "base": _save_base,
    "linked": lambda path, state: save(path, state, base=f"{os.path.dirname(os.path.dirname(path))}/base"),
    "base and linked": _save_with_base,
    "step": _save_step,
    "step, keep_last=1": lambda path, state: _save_step(path, state, keep_last=1),
    "look at steps": _look_at_steps,
    "msgpack": treaty.runtime.save,
    "safetensors": treaty.runtime.save,
    "shards": lambda path, state: treaty.runtime.save(path, state, max_shard_bytes=512),
    "to orbax": lambda path, state: _convert(path, state, "orbax"),
    "to eformer": lambda path, state: _convert(path, state, "eformer"),
    "to treaty": lambda path, state: _convert(path, state, "treaty"),
}
_LINE: Final = 2000
_PATIENCE: Final = 120  # seconds, after which a save that hangs is killed, which fails its test


def main() -> None:
    warnings.simplefilter("ignore")  # Python and JAX warn of forks that lose threads; these are not needed here
    jax.devices()
    _owner.take_name()  # which looks at /proc, where no disk fails
    for format in FORMATS.values():
        format.is_at(os.devnull)  # imports what looks at paths
    for name, value in states.LAYOUT.items():
        setattr(_plan, name, value)
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    report = mmap.mmap(-1, 2 * _LINE + 2)  # shared with the child, who needs no system call to write here
    state = states.run(request["seed"], request["d_in"])
    wait, go = os.pipe()
    told, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go)
        if request.get("threads") == "main":  # what it would do itself, its helper does
            os.write(ready, str(uninterrupted(threading.get_native_id)()).encode())
        os.close(ready)
        _save(request, state, wait, report)
    os.close(wait)
    os.close(ready)
    helper = os.read(told, 20)  # until the child closes its end: from then on it makes no call but those of the save
    os.close(told)
    calls: list[ptrace.Call] = []
    if "inject" in request:
        _with_strace(pid, int(helper or pid), request, lambda: os.close(go))
    else:
        calls = ptrace.trace(pid, request["folder"], lambda: os.close(go), _stop(request))
    attempts = report[:].rstrip(b"\0").decode().splitlines()
    return {"attempts": attempts, "calls": [(call.name, call.paths) for call in calls]}


def _save(request: dict[str, Any], state: states.Run, wait: int, report: mmap.mmap) -> NoReturn:
    try:
        os.read(wait, 1)  # until the parent closes its end
        signal.alarm(_PATIENCE)
        for _ in range(request["attempts"]):
            message = _attempt(request, state)
            report.write(" ".join(message.splitlines()).encode()[:_LINE] + b"\n")
            if message == "saved":
                break
    finally:
        os._exit(0)


def _attempt(request: dict[str, Any], state: states.Run) -> str:
    try:
        _SAVES[request["how"]](request["path"], state)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "saved"


def _stop(request: dict[str, Any]) -> Callable[[ptrace.Call, int], bool]:
    committed = False

    def stop(call: ptrace.Call, number: int) -> bool:
        nonlocal committed
        if number != request["at"] and not (committed and request["at"] == ptrace.COMMITTED):
            committed = call.name == "rename" and call.paths[1].endswith("treaty.json")
            return False
        if request["cut"]:
            images.cut_power(request["folder"])
        return True

    return stop


def _with_strace(pid: int, thread: int, request: dict[str, Any], start: Callable[[], None]) -> None:
    follow = ["--follow-forks"] if request["threads"] == "all" else []
    faults = [part for inject in request["inject"] for part in ("--inject", inject)]
    calls = ",".join(inject.partition(":")[0] for inject in request["inject"])
    command = ["strace", *follow, f"--attach={thread}", "--output=/dev/null", f"--trace={calls}", *faults]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as strace:
        while not _traced(pid, thread, bool(follow)):
            if strace.poll() is not None:
                assert strace.stderr is not None
                raise RuntimeError(f"strace: {strace.stderr.read()}")
        start()
        os.waitpid(pid, 0)


def _traced(pid: int, thread: int, threads: bool) -> bool:
    for task in os.listdir(f"/proc/{pid}/task") if threads else [str(thread)]:
        with open(f"/proc/{pid}/task/{task}/status") as status:
            if any(line.startswith("TracerPid:\t0") for line in status):
                return False
    return True


if __name__ == "__main__":
    main()
