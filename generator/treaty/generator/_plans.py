"""What restoring a checkpoint as one of the user's classes would say. Asked in a process of its own, which imports them.

`python -m treaty.generator._plans RESULT` reads its question from standard input and writes JSON to the file RESULT. The
runtime is named as text: this layer does not know it.
"""

import importlib
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from treaty.generator._project import Project, last_words
from treaty.schema import TreatyError
from treaty.schema.modules import object_of

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
        question = json.dumps({"checkpoint": checkpoint, "symbols": list(symbols), "former": dict(former)})
        done = project.python("treaty.generator._plans", str(result), input=question)
        if not result.exists():
            raise TreatyError(f"--against {checkpoint}: reading it ended the process: {last_words(done)}")
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
    return list(runtime.plan(checkpoint, object_of(symbol)).problems)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(_answer(**json.load(sys.stdin))))
