"""The process that imports the user's modules and hands back their IR, so that nothing of theirs runs in ours.

`python -m treaty.generator._worker RESULT MODULE...` writes JSON to the file RESULT: what the modules print is theirs.
"""

import importlib
import inspect
import json
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from treaty.schema import SchemaError
from treaty.schema._declare import version_of
from treaty.schema._read import Reader
from treaty.schema.ir import class_to_data
from treaty.schema.modules import generated_name


def roots(module: ModuleType) -> list[type]:
    """The classes a module declares: those with @state, or all attrs classes where none has it."""
    own = [
        value
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and value.__name__ == name
    ]
    states = [cls for cls in own if version_of(cls) is not None]
    return states or [cls for cls in own if attrs.has(cls)]


def read(name: str) -> dict[str, Any]:
    """One module: its classes, where its file is, and where the code of every class it uses lives."""
    module = importlib.import_module(name)
    found = roots(module)
    if not found:
        raise SchemaError(f"{name}: no class declared with @state, so there is nothing to generate")
    reader = Reader()
    for cls in found:
        reader.root(cls)
    classes = reader.classes()
    homes = {cls.module for cls in classes if cls.kind == "state"} | {name}
    return {
        "file": inspect.getsourcefile(module) or "",
        "classes": [class_to_data(cls) for cls in classes],
        "generated": {home: generated_name(home) for home in sorted(homes)},
    }


def main(result: str, *modules: str) -> None:
    answers: dict[str, Any] = {}
    for name in modules:
        try:
            answers[name] = read(name)
        except SchemaError as error:
            answers[name] = {"problems": list(error.problems)}
        except Exception as error:  # the module is user code: importing it can raise anything
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{last.filename}:{last.lineno}"
            answers[name] = {"problems": [f"{name}: cannot be imported: {type(error).__name__}: {error} ({where})"]}
    Path(result).write_text(json.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
