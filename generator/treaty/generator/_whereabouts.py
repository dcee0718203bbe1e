"""What classes of other packages are called today, by symbols that they had. Asked in a process of its own: it imports them.

`python -m treaty.generator._whereabouts SYMBOL...` prints a JSON object; "" stands for what cannot be imported.
"""

import functools
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence

from treaty.generator._project import Project
from treaty.schema.modules import symbol_of


def whereabouts(symbols: Sequence[str], project: Project) -> dict[str, str]:
    path = os.pathsep.join([*project.search_path, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "treaty.generator._whereabouts", *symbols],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()  # the last: what the modules print is theirs
    return {**dict.fromkeys(symbols, ""), **(json.loads(lines[-1]) if done.returncode == 0 else {})}


def _symbol_today(symbol: str) -> str:
    module, _, qualname = symbol.partition(":")
    try:
        return symbol_of(functools.reduce(getattr, qualname.split("."), importlib.import_module(module)))
    except (Exception, SystemExit):  # importing runs the code of others, which can raise anything
        return ""


if __name__ == "__main__":
    print(json.dumps({symbol: _symbol_today(symbol) for symbol in sys.argv[1:]}))
