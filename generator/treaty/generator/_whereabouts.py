"""What classes of other packages are called today, by symbols that they had. Asked in a process of its own: it imports them.

`python -m treaty.generator._whereabouts SYMBOL...` prints a JSON object; "" stands for what cannot be imported.
"""

import json
import sys
from collections.abc import Sequence

from treaty.generator._project import Project
from treaty.schema.modules import object_of, symbol_of


def whereabouts(symbols: Sequence[str], project: Project) -> dict[str, str]:
    done = project.python("treaty.generator._whereabouts", *symbols)
    lines = done.stdout.splitlines()  # the last: what the modules print is theirs
    return {**dict.fromkeys(symbols, ""), **(json.loads(lines[-1]) if done.returncode == 0 else {})}


def _symbol_today(symbol: str) -> str:
    try:
        return symbol_of(object_of(symbol))
    except (Exception, SystemExit):  # importing runs the code of others, which can raise anything
        return ""


if __name__ == "__main__":
    print(json.dumps({symbol: _symbol_today(symbol) for symbol in sys.argv[1:]}))
