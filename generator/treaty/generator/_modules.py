"""The user's modules as the generator knows them: imported in another process, by `_worker.py`, and read from its answer."""

import json
import keyword
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from attrs import field, frozen

from treaty.generator._module_scope import external
from treaty.generator._project import Project, last_words, relative_path
from treaty.schema import Schema, SchemaError, ir
from treaty.schema.evolution.lock import Lock
from treaty.schema.evolution.migrations import Step, step_from_data
from treaty.schema.ir_json import class_from_data
from treaty.schema.modules import is_module_name


@frozen(slots=False)
class Module:
    """What the worker found in one of the user's modules. `lines` is where its classes and their fields begin."""

    name: str
    file: str
    roots: tuple[str, ...]
    classes: tuple[ir.Class, ...]
    generated: Mapping[str, str]
    generics: Mapping[str, Any] = field(factory=dict)
    steps: Mapping[str, Mapping[int, Step]] = field(factory=dict)  # by symbol
    lines: Mapping[str, int] = field(factory=dict)
    histories: Mapping[str, str] = field(factory=dict)  # locks of installed modules whose classes it uses, by module
    keymaps: Mapping[str, Sequence[str]] = field(factory=dict)  # what is wrong with each, by its name

    @property
    def output(self) -> str:
        return relative_path(self.generated[self.name])

    @cached_property
    def declared(self) -> Mapping[str, Schema]:
        """The schema of each class by its symbol, type variables left open: what is locked."""
        if problems := self.generics.get("problems"):
            raise SchemaError(*(f"{problem} (to lock the class)" for problem in problems))
        generic: Mapping[str, str] = self.generics.get("roots", {})
        opened = Schema("", tuple(map(class_from_data, self.generics.get("classes", ()))))
        plain = Schema("", self.classes)
        return {id: opened.at(generic[id]) if id in generic else plain.at(id) for id in self.roots}

    @cached_property
    def locks_elsewhere(self) -> Mapping[str, Lock]:
        """Of installed packages whose classes are used: their migrations serve wherever these stand."""
        return {home: Lock.parse(text, f"the history of {home}") for home, text in self.histories.items()}

    def line(self, symbol: str, attribute: str = "") -> int:
        """Where a field of a class is declared, or else the class; 0 if that is not known."""
        name = symbol.partition(":")[2]
        return self.lines.get(f"{name}.{attribute}") or self.lines.get(name, 0)

    def uses(self) -> list[str]:
        """The other schema modules whose generated code this one's imports."""
        return sorted({cls.module for cls in self.classes if external(cls, self.name)})


def every_lock(modules: Iterable[Module], locks: Mapping[str, Lock]) -> dict[str, Lock]:
    """By module: `locks`, and those of installed packages whose classes are used."""
    return {home: lock for module in modules for home, lock in module.locks_elsewhere.items()} | dict(locks)


def read_modules(names: Iterable[str], project: Project) -> list[Module]:
    """Import the modules in another process and read their schemas. Raises SchemaError with every problem."""
    names = list(dict.fromkeys(names))
    if wrong := [name for name in names if not is_module_name(name)]:
        raise SchemaError(*map(_no_module, wrong))
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        done = project.python("treaty.generator._worker", str(result), *names)
        if not result.exists():
            raise SchemaError(f"{', '.join(names)}: importing ended the process: {last_words(done)}; {_seen(names)}")
        answers = json.loads(result.read_text())
    problems = [problem for answer in answers.values() for problem in answer.get("problems", ())]
    if problems:
        raise SchemaError(*dict.fromkeys(problems))  # a class that two modules use is read twice
    return [
        Module(
            name,
            data["file"],
            tuple(data["roots"]),
            tuple(map(class_from_data, data["classes"])),
            {home: _home_of(home, name, data, project) for home in data["generated"]},
            data["generics"],
            {symbol: _steps(steps) for symbol, steps in data["steps"].items()},
            data["lines"],
            data["histories"],
            data["keymaps"],
        )
        for name, data in answers.items()
    ]


def _steps(data: Mapping[str, Any]) -> dict[int, Step]:
    return {int(number): step_from_data(step) for number, step in data.items()}


def _seen(names: list[str]) -> str:
    return f"to see where, run: python -v -c 'import {', '.join(names)}'"


def _no_module(name: str) -> str:
    if name.endswith(".py") or "/" in name:
        return f"{name}: expected a module of this project, such as my.state or my/state.py"
    good = ".".join(re.sub(r"\W", "_", part) + "_" * keyword.iskeyword(part) for part in name.split("."))
    return f"{name}: expected a module that an import statement can name; rename it, for one to {good}"


def _home_of(home: str, module: str, data: dict[str, Any], project: Project) -> str:
    """Where the code of a used module lies. Installed packages may have it where earlier versions put it."""
    former = None if home == module or is_own(home, project) else data["former"].get(home)
    name: str = former or data["generated"][home]
    if not is_module_name(name):
        raise SchemaError(f"{home}: __treaty__ = {name!r}: expected a module name, such as 'pkg.mod'")
    return name


def with_used(found: list[Module], project: Project) -> list[Module]:
    """The modules and those of the same project that they use: named or not, the code must import and be fresh."""
    known = {module.name for module in found}
    pending = found
    while pending:
        used = {name for module in pending for name in module.uses()} - known
        own = sorted(name for name in used if is_own(name, project))
        # After those that use them: modules that import each other may not do so in any other order.
        read = read_modules([*(module.name for module in found), *own], project) if own else []
        pending = read[len(found) :]
        known.update(own)
        found = [*found, *pending]
    return found


def is_own(module: str, project: Project) -> bool:
    """Whether the project has the module's source; installed packages bring their own generated code."""
    paths = [Path(root, *module.split(".")) for root in project.search_path]
    return any(path.with_suffix(".py").is_file() or (path / "__init__.py").is_file() for path in paths)
