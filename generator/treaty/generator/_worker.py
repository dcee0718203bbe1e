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

import treaty.schema
from treaty.schema import SchemaError
from treaty.schema import modules as schema_modules
from treaty.schema._classes import relative
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
    root_ids = [reader.root(cls) for cls in found]
    classes = reader.classes()
    homes = {cls.module for cls in classes if cls.kind == "state"} | {name}
    return {
        "file": inspect.getsourcefile(module) or "",
        "roots": root_ids,
        "classes": [class_to_data(cls) for cls in classes],
        "generated": {home: generated_name(home) for home in sorted(homes)},
    }


def main(result: str, *modules: str) -> None:
    schema_modules.generating = True
    answers: dict[str, Any] = {}
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:  # the module is user code: importing it can raise anything
            answers[name] = {"problems": _import_problems(name, error)}
            continue
        try:
            answers[name] = read(name)
        except SchemaError as error:
            answers[name] = {"problems": list(error.problems)}
    Path(result).write_text(json.dumps(answers))


def _import_problems(module: str, error: Exception) -> list[str]:
    """What went wrong in the user's own code, by the last line of theirs that ran."""
    ours = (str(Path(__file__).parent), str(Path(treaty.schema.__file__).parent))
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<frozen", *ours)) and "importlib" not in frame.filename
    ]
    where = f"{relative(frames[-1].filename)}:{frames[-1].lineno}: " if frames else ""
    if isinstance(error, SchemaError):
        return [f"{where}{problem}" for problem in error.problems]
    return [f"{where}{module}: cannot be imported: {type(error).__name__}: {error}"]


if __name__ == "__main__":
    main(*sys.argv[1:])
