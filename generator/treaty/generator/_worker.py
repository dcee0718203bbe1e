"""The process that imports the user's modules and hands back their IR, so that nothing of theirs runs in ours.

`python -m treaty.generator._worker RESULT MODULE...` writes JSON to the file RESULT: what the modules print is theirs.
"""

import ast
import importlib
import importlib.util
import inspect
import json
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

import treaty.schema
from treaty.schema import SchemaError
from treaty.schema import modules as schema_modules
from treaty.schema._classes import one_line, relative
from treaty.schema._declare import state_options
from treaty.schema._nearest import did_you_mean, near_modules
from treaty.schema._read import SchemaReader
from treaty.schema.evolution.migrations import step_to_data, steps_of
from treaty.schema.ir_json import class_to_data
from treaty.schema.keymap import KeyMap
from treaty.schema.modules import former_name, generated_name, symbol_of


def roots(module: ModuleType) -> list[type]:
    """The classes a module declares: those with @state, or all attrs classes where none has it."""
    own = [
        value
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and value.__name__ == name
    ]
    states = [cls for cls in own if state_options(cls) is not None]
    return states or [cls for cls in own if attrs.has(cls)]


def read(name: str) -> dict[str, Any]:
    """One module: its classes, where its file is, and where the code of every class it uses lives."""
    module = importlib.import_module(name)
    found = roots(module)
    if not found:
        where = f"{relative(file)}: " if (file := getattr(module, "__file__", None)) else ""
        raise SchemaError(
            f"{where}{name}: no class declared with @state, so there is nothing to generate; write @state above a class"
        )
    reader = SchemaReader(importable=True)
    root_ids = [reader.root(cls) for cls in found]
    classes = reader.classes()
    homes = {cls.module for cls in classes if cls.kind == "state"} | {name}
    symbols = dict.fromkeys([*root_ids, *(cls.symbol for cls in classes if cls.kind == "state")])
    return {
        "file": inspect.getsourcefile(module) or "",
        "roots": root_ids,
        "classes": [class_to_data(cls) for cls in classes],
        "generics": generics([cls for cls in found if getattr(cls, "__parameters__", ())]),
        "steps": {symbol: {n: step_to_data(step) for n, step in steps_of(symbol).items()} for symbol in symbols},
        "lines": lines(module),
        "keymaps": {name: found for name, found in keymaps(module) if found},
        "histories": {home: lock for home in sorted(homes - {name}) if (lock := history(home))},
        "generated": {home: generated_name(home) for home in sorted(homes)},
        "former": {home: former for home in sorted(homes) if (former := former_name(home))},
    }


def generics(classes: list[type]) -> dict[str, Any]:
    """Generic classes with their type variables open, as they are locked. What is wrong with them then is for the lock to say."""
    reader = SchemaReader(importable=True)
    try:
        roots = {symbol_of(cls): reader.generic(cls) for cls in classes}
        return {"roots": roots, "classes": [class_to_data(cls) for cls in reader.classes()], "problems": []}
    except SchemaError as error:
        return {"roots": {}, "classes": [], "problems": list(error.problems)}


def keymaps(module: ModuleType) -> Iterator[tuple[str, list[str]]]:
    """The key maps of a module that say of which class they are, and what is wrong with each."""
    for name, value in vars(module).items():
        if isinstance(value, KeyMap) and value.of is not None:
            try:
                yield name, list(value.problems())
            except SchemaError as error:  # of the class
                yield name, list(error.problems)


def history(module: str) -> str:
    """The lock of another module, from the code that was generated of it: an installed package need not have the file.

    Read and not imported, which would take the runtime. "" where there is none.
    """
    try:
        spec = importlib.util.find_spec(f"{generated_name(module)}_history")
        body = ast.parse(Path(spec.origin).read_bytes()).body if spec is not None and spec.origin else []
    except (ImportError, ValueError, OSError, SyntaxError):
        return ""
    texts = (one.value for one in body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "LOCK")
    return next((one.value for one in texts if isinstance(one, ast.Constant) and isinstance(one.value, str)), "")


def lines(module: ModuleType) -> dict[str, int]:
    """Where the classes of a module begin, their fields, and its key maps, for messages."""
    try:
        body = ast.parse(inspect.getsource(module)).body
    except (OSError, TypeError, SyntaxError):
        return {}
    found: dict[str, int] = {}
    for cls in body:
        if isinstance(cls, ast.ClassDef):
            found[cls.name] = min([cls.lineno, *(above.lineno for above in cls.decorator_list)])
            for one in cls.body:
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                    found[f"{cls.name}.{one.target.id}"] = one.lineno
        elif isinstance(cls, (ast.Assign, ast.AnnAssign)):
            targets = cls.targets if isinstance(cls, ast.Assign) else [cls.target]
            found |= {one.id: cls.lineno for one in targets if isinstance(one, ast.Name)}
    return found


def main(result: str, *modules: str) -> None:
    schema_modules.generating = True
    if "JAX_PLATFORM_NAME" not in os.environ:
        os.environ.setdefault(
            "JAX_PLATFORMS", "cpu"
        )  # factories make arrays, which is no reason to take an accelerator
    answers: dict[str, Any] = {}
    for name in modules:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # the module is user code: importing it can raise anything
            answers[name] = {"problems": _import_problems(name, error)}
            continue
        try:
            answers[name] = read(name)
        except SchemaError as error:
            answers[name] = {"problems": list(error.problems)}
    Path(result).write_text(json.dumps(answers))


def _import_problems(module: str, error: BaseException) -> list[str]:
    """What went wrong in the user's own code, by the last line of theirs that ran or does not parse."""
    lines = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    said = one_line(error)
    if isinstance(error, SyntaxError):
        lines.append((error.filename or "", error.lineno))
        said = error.msg
    own = [(file, line) for file, line in lines if is_users_file(file)]
    where = f"{relative(own[-1][0])}:{own[-1][1]}: " if own else ""
    if isinstance(error, SchemaError):
        return [f"{where}{problem}" for problem in error.problems]
    near = near_modules(module, error) if isinstance(error, ImportError) else []
    return [f"{where}{module}: cannot be imported: {type(error).__name__}: {said}{did_you_mean(near)}"]


def is_users_file(file: str) -> bool:
    """Whether a file is of the user's project: not of Python, of an installed package, or ours."""
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    runtime = importlib.util.find_spec("treaty.runtime")  # by name: it is not imported from here
    ours = [str(Path(__file__).parent), str(Path(treaty.schema.__file__).parent)]
    ours += list(runtime.submodule_search_locations or ()) if runtime is not None else []
    path = Path(file).resolve()
    return path.is_file() and not any(path.is_relative_to(Path(folder).resolve()) for folder in (*folders, *ours))


if __name__ == "__main__":
    main(*sys.argv[1:])
