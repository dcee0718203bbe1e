"""Compile in memory: generated code for classes of notebooks and scripts, which have no module file to stand beside."""

import linecache
import typing
from types import ModuleType
from typing import Any

from treaty.generator.plan import plan_module
from treaty.generator.render import render
from treaty.schema._read import SchemaReader
from treaty.schema.modules import home_of


def load(cls: Any) -> ModuleType:
    """Generate, compile and register the code of a class (or generic alias) and all it uses; the module it makes.

    The source shows in tracebacks and in `inspect.getsource`, as if it were a file.
    """
    reader = SchemaReader()
    root = reader.root(cls)
    classes = reader.classes()
    origin = typing.get_origin(cls) or cls
    text = render(plan_module(home_of(origin.__module__), [root], classes, {}, inject=True))
    name = f"{origin.__module__}_treaty:{origin.__qualname__}"
    filename = f"<treaty {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = ModuleType(name)
    module.__file__ = filename
    setattr(module, "_classes", reader.objects)  # noqa: B010 - a module has no such attribute to mypy
    exec(compile(text, filename, "exec"), vars(module))
    return module
