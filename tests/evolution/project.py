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

from treaty.generator._generate import text_of
from treaty.generator._modules import Module
from treaty.generator._revisions import next_revisions
from treaty.generator._worker import read, roots
from treaty.runtime._evolve import histories
from treaty.runtime._restore import mapped, resolve
from treaty.runtime._state import registry
from treaty.schema import Schema, schema_of
from treaty.schema.evolution import migrations
from treaty.schema.evolution.history import History
from treaty.schema.evolution.lock import Lock, Moved
from treaty.schema.ir_json import class_from_data

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
        """A new revision of each class that needs one, as `treaty lock` gives it; what it would refuse is locked too."""
        for one in next_revisions([self._read()], {self.name: self.locked}).values():
            self.locked = self.locked.add(one.symbol, one.schema, uses=one.uses, migration=one.migration)
        self._write_history()
        self._generate()
        return self

    def _write_history(self) -> None:
        name = f"{self.name}_treaty_history"
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        setattr(module, "LOCK", self.locked.to_text())  # noqa: B010 - a module has no such attribute to mypy
        sys.modules[name] = module
        _clear_caches()

    def release(self, text: str) -> "Project":
        return self.declare(text).lock()

    def history(self, name: str) -> History:
        found = self.locked.history(name, migrations.steps_of(f"{self.name}:{name}"))
        assert found is not None
        return found

    def declared(self) -> Mapping[str, Schema]:
        """What is locked of each class, by symbol."""
        return self._read().declared

    def move(self, names: Mapping[str, str]) -> None:
        """As `treaty lock --moved old:Name=new:Name`."""
        symbols = {f"{self.name}:{old}": f"{self.name}:{new}" for old, new in names.items()}
        self.locked = self.locked.with_entry(Moved(symbols))
        self._write_history()

    def forget(self) -> None:
        """Nothing of the module is left but its lock."""
        sys.modules.pop(self.name, None)
        for key in [key for key in registry._codecs if key[0].__module__ == self.name]:
            del registry._codecs[key]
        registry._checked.clear()
        registry._bare.clear()
        for symbol in [one for one in migrations._registered if one.startswith(f"{self.name}:")]:
            del migrations._registered[symbol]
        _clear_caches()

    def _generate(self) -> None:
        """As `treaty generate` does."""
        made = ModuleType(f"{self.name}_treaty")
        sys.modules[made.__name__] = made
        exec(compile(text_of(self._read(), self.locked), f"<{made.__name__}>", "exec"), vars(made))
        _clear_caches()

    def _read(self) -> Module:
        """The module as the generator knows it."""
        data = read(self.name)
        classes = tuple(map(class_from_data, data["classes"]))
        steps = {symbol: migrations.steps_of(symbol) for symbol in data["roots"]}
        return Module(self.name, "", tuple(data["roots"]), classes, data["generated"], data["generics"], steps)


@contextmanager
def projects() -> Iterator[type[Project]]:
    """Projects whose modules are gone at the end."""
    before = set(sys.modules)
    try:
        yield Project
    finally:
        for name in set(sys.modules) - before:
            if name.startswith("evolving"):
                Project(name.partition("_")[0]).forget()
                sys.modules.pop(name, None)


def _clear_caches() -> None:
    histories._history_name.cache_clear()
    histories._lock.cache_clear()
    histories._histories.clear()
    for cached in (resolve.confusable, resolve._all_earlier, mapped._way):
        cached.cache_clear()


def schema(text: str, module: str = "m") -> Schema:
    """The schema of the last class that a text declares, as if it were in a module `m`."""
    made = ModuleType(module)
    sys.modules[module] = made
    try:
        exec(compile(HEADER + textwrap.dedent(text), f"<{module}>", "exec", dont_inherit=True), vars(made))
        return schema_of(roots(made)[-1])
    finally:
        del sys.modules[module]
