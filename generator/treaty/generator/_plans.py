"""What restoring a checkpoint as one of the user's classes would say. Asked in a process of its own, which imports them.

`python -m treaty.generator._plans RESULT` reads its question from standard input and writes JSON to the file RESULT. The
runtime is named as text: this layer does not know it.
"""

import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from treaty.generator._project import Project
from treaty.schema import TreatyError

_RUNTIME: Final = "treaty.runtime"


@frozen
class Plans:
    """`cls` is what the checkpoint says that it was written by, "" if nothing; `problems` are those of each class that was tried."""

    cls: str
    problems: Mapping[str, Sequence[str]]


def plans(checkpoint: str, symbols: Sequence[str], former: Mapping[str, str], project: Project) -> Plans:
    """`former` are the present names of classes by those that they had. Of several classes, those after one that fits are not tried."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        path = os.pathsep.join([*project.search_path, *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, "-m", "treaty.generator._plans", str(result)],
            input=json.dumps({"checkpoint": checkpoint, "symbols": list(symbols), "former": dict(former)}),
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        if not result.exists():
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise TreatyError(f"--against {checkpoint}: reading it ended the process: {last}")
        data = json.loads(result.read_text())
    if "error" in data:
        raise TreatyError("\n".join(f"--against {checkpoint}: {line}" for line in data["error"].splitlines()))
    return Plans(data["class"], data["problems"])


def _answer(checkpoint: str, symbols: Sequence[str], former: Mapping[str, str]) -> dict[str, Any]:
    runtime = importlib.import_module(_RUNTIME)
    try:
        said = runtime.inspect(checkpoint).class_id or ""
        # A directory that was converted from another format has a schema of keys alone.
        name = "" if said == "tree" else former.get(said, said)
        problems: dict[str, list[str]] = {}
        for symbol in symbols:
            if name in ("", symbol):
                problems[symbol] = _problems(runtime, checkpoint, symbol)
                if not problems[symbol]:
                    break
    except TreatyError as error:
        return {"error": str(error)}
    return {"class": name, "problems": problems}


def _problems(runtime: Any, checkpoint: str, symbol: str) -> list[str]:
    module, _, qualname = symbol.partition(":")
    cls = functools.reduce(getattr, qualname.split("."), importlib.import_module(module))
    return list(runtime.plan(checkpoint, cls).problems)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(_answer(**json.load(sys.stdin))))
