"""A module of a project as it was at one time after another, in this process: declared, locked, declared anew.

project = Project()
project.declare("@state class Linear: ...")
project.lock()                                  # as `treaty lock` and `treaty generate` do
project.save(path, project["Linear"](...))
project.declare("@state class Linear: ...")     # the next version of the same module
restore(path, project["Linear"])
"""

import itertools
import linecache
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from treaty.generator._worker import roots
from treaty.generator.plan import plan_module
from treaty.generator.render import render
from treaty.runtime._evolve import histories
from treaty.runtime._restore.resolve import confusable
from treaty.runtime._state import registry
from treaty.schema import Schema, schema_of
from treaty.schema._read import SchemaReader
from treaty.schema.evolution import migrations
from treaty.schema.evolution.history import History
from treaty.schema.evolution.lock import Lock, Moved, Released
from treaty.schema.evolution.lock_json import parse, to_text
from treaty.schema.modules import symbol_of

HEADER: Final = """\
import enum
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial
from jaxtyping import BFloat16, Float16, Float32, Float64, Int8, Int32, Int64, Key, PyTree

from treaty.schema import ArraySpec, Dims, Fields, Length, Rule, field, migration, state

P = TypeVar("P")
"""
_numbers: Final = itertools.count()


class Project:
    """One schema module. Its name is new for each project, so that no two share anything."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name or f"evolving{next(_numbers)}"
        self.locked = Lock(self.name)
        self.module = ModuleType(self.name)

    def __getitem__(self, name: str) -> Any:
        return getattr(self.module, name)

    def declare(self, text: str) -> "Project":
        """The module as it is now: what was there before is gone, as in a new process."""
        self.forget()
        self.module = ModuleType(self.name)
        self.module.__file__ = f"<{self.name}>"
        sys.modules[self.name] = self.module
        source = HEADER + textwrap.dedent(text)
        linecache.cache[self.module.__file__] = (len(source), None, source.splitlines(True), self.module.__file__)
        exec(compile(source, self.module.__file__, "exec", dont_inherit=True), vars(self.module))
        self._generate()
        return self

    def lock(self) -> "Project":
        """A new revision of each class that changed, or that a migration begins at, as `treaty lock` gives it."""
        for cls in roots(self.module):
            schema = generic_schema(cls)
            symbol = symbol_of(cls)
            steps = migrations.steps_of(symbol)
            history = self.locked.history(symbol)
            if history.last and history[history.last].digest == schema.digest and history.last not in steps:
                continue
            step = steps.get(history.last)
            self.locked = self.locked.add(symbol, schema, migration=None if step is None else Released.of(step))
        self._write_history()
        self._generate()
        return self

    def _write_history(self) -> None:
        name = f"{self.name}_treaty_history"
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        setattr(module, "LOCK", to_text(self.locked))  # noqa: B010 - a module has no such attribute to mypy
        sys.modules[name] = module
        _clear_caches()

    def move(self, names: Mapping[str, str]) -> None:
        """As `treaty lock --moved old:Name=new:Name`."""
        symbols = {f"{self.name}:{old}": f"{self.name}:{new}" for old, new in names.items()}
        self.locked = self.locked.with_entry(Moved(symbols))
        self._write_history()

    def release(self, text: str) -> "Project":
        return self.declare(text).lock()

    def history(self, name: str) -> History:
        symbol = f"{self.name}:{name}"
        return self.locked.history(name, migrations.steps_of(symbol))

    def forget(self) -> None:
        """Nothing of the module is left but its lock."""
        sys.modules.pop(self.name, None)
        for key in [key for key in registry._codecs if key[0].__module__ == self.name]:
            del registry._codecs[key]
        registry._checked.clear()
        for symbol in [one for one in migrations._registered if one.startswith(f"{self.name}:")]:
            del migrations._registered[symbol]
        _clear_caches()

    def _generate(self) -> None:
        """As `treaty generate` does."""
        reader = SchemaReader()
        ids = [reader.root(cls) for cls in roots(self.module)]
        classes = reader.classes()
        revisions = {}
        for cls in roots(self.module):
            found = self.history(cls.__qualname__)
            if found.last and found.present(generic_schema(cls)) == found.last:
                revisions[found.symbol] = found.last
        text = render(plan_module(self.name, ids, classes, {}, inject=True, revisions=revisions))
        made = ModuleType(f"{self.name}_treaty")
        setattr(made, "_classes", reader.objects)  # noqa: B010 - a module has no such attribute to mypy
        exec(compile(text, f"<{self.name}_treaty>", "exec"), vars(made))
        _clear_caches()


@contextmanager
def projects() -> Iterator[type[Project]]:
    """Projects whose modules are gone at the end."""
    before = set(sys.modules)
    try:
        yield Project
    finally:
        for name in set(sys.modules) - before:
            if name.startswith("evolving"):
                Project(name.removesuffix("_treaty_history")).forget()
                sys.modules.pop(name, None)


def generic_schema(cls: type) -> Schema:
    """What is locked of a class: itself, with its type variables open."""
    reader = SchemaReader()
    root = reader.generic(cls)
    return Schema(root, reader.classes()).at(root)


def reparsed(lock: Lock) -> Lock:
    return parse(to_text(lock))


def _clear_caches() -> None:
    histories._history_name.cache_clear()
    histories._lock.cache_clear()
    histories._histories.clear()
    confusable.cache_clear()


def schema(text: str, module: str = "m") -> Schema:
    """The schema of the last class that a text declares, as if it were in a module `m`."""
    made = ModuleType(module)
    sys.modules[module] = made
    try:
        exec(compile(HEADER + textwrap.dedent(text), f"<{module}>", "exec", dont_inherit=True), vars(made))
        return schema_of(roots(made)[-1])
    finally:
        del sys.modules[module]
