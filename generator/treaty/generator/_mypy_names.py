"""What the names in an annotation mean, from two witnesses: mypy's symbol tables and the text of the modules.

mypy knows every class, through any chain of imports. The text is needed for what mypy drops: to it each jaxtyping name
is the same Annotated, an alias of an array type is the bare array, and calls inside Annotated are nothing at all.
"""

import ast
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from attrs import frozen
from mypy.nodes import MypyFile, SymbolNode, TypeInfo

_TYPE_STATEMENT: Final[Any] = getattr(ast, "TypeAlias", ())  # `type X = ...`, from Python 3.12 on


class Unsure(Exception):
    """Not visible without running the code: then nothing is reported."""


@frozen(eq=False)
class ModuleText:
    """The text of one module, by name: classes, `from` imports and `X = ...`."""

    classes: Mapping[str, list[ast.ClassDef]]
    imports: Mapping[str, tuple[str, str]]  # name here -> module and name there
    values: Mapping[str, list[ast.expr]]
    stars: list[str]
    locals: set[str]  # names that functions bind


@frozen(eq=False)
class Position:
    """Where an expression stands: its module, and its class, whose own names come first."""

    module: str
    cls: TypeInfo | None = None


@frozen(eq=False)
class Found:
    """A name, the module it was looked up in, and what mypy says it is."""

    node: SymbolNode
    module: str
    name: str

    @property
    def fullname(self) -> str:
        return self.node.fullname


class Names:
    """Looks names up in the modules of one mypy run."""

    def __init__(self, modules: Mapping[str, MypyFile], shadows: Iterable[Iterable[str]] = ()) -> None:
        self._modules = modules
        self._shadows = {os.path.abspath(path): shadow for path, shadow in shadows}

    def find(self, expr: ast.expr, place: Position) -> Found:
        """What `name` or `module.name` refers to."""
        if isinstance(expr, ast.Name):
            return self._in_class(place.cls, expr.id) or self._in_module(place.module, expr.id, "builtins")
        if not isinstance(expr, ast.Attribute):
            raise Unsure
        owner = self.find(expr.value, place)
        if isinstance(owner.node, MypyFile):
            return self._in_module(owner.node.fullname, expr.attr)
        symbol = owner.node.names.get(expr.attr) if isinstance(owner.node, TypeInfo) else None
        if symbol is None or symbol.node is None:
            raise Unsure
        return Found(symbol.node, owner.module, expr.attr)

    def origin(self, found: Found) -> str:
        """The dotted name that imports lead back to: `jaxtyping.Float32`, which mypy calls typing.Annotated."""
        module, name = found.module, found.name
        for _ in range(100):  # imports can go in circles
            if module in ("jaxtyping", "typing", "typing_extensions"):
                return f"{module.replace('typing_extensions', 'typing')}.{name}"
            source = self.source(module)
            if name in source.imports:
                module, name = source.imports[name]
            else:
                stars = [star for star in source.stars if star in self._modules and name in self._modules[star].names]
                if not stars or name in source.values:
                    return f"{module}.{name}"
                module = stars[-1]
        raise Unsure

    def value(self, fullname: str) -> tuple[ast.expr, Position]:
        """The right side of `X = ...` for an alias that mypy calls by this name, and where it stands."""
        module, _, name = fullname.rpartition(".")
        values = self.source(module).values.get(name, [])
        if len(values) != 1:
            raise Unsure
        return values[0], Position(module)

    def class_def(self, info: TypeInfo) -> ast.ClassDef:
        """The class statement of a class."""
        found = self.source(info.module_name).classes.get(info.defn.name, [])
        if len(found) > 1:
            found = [one for one in found if one.lineno == info.defn.line]
        if len(found) != 1:
            raise Unsure
        return found[0]

    def source(self, module: str) -> ModuleText:
        tree = self._modules.get(module)
        if tree is None:
            raise Unsure
        path = self._shadows.get(os.path.abspath(tree.path), tree.path)
        try:
            stamp = os.stat(path)
            return _parse(path, module, tree.is_package_init_file(), stamp.st_mtime_ns, stamp.st_size)
        except (OSError, SyntaxError, ValueError):
            raise Unsure from None

    def _in_class(self, cls: TypeInfo | None, name: str) -> Found | None:
        """A class inside the class. Of a class inside a function (`Name@line`) other names may be the function's."""
        inner = cls.names.get(name) if cls is not None else None
        if cls is not None and inner is not None and isinstance(inner.node, TypeInfo):
            return Found(inner.node, cls.module_name, name)
        if cls is not None and "@" in cls.fullname:
            if name == cls.defn.name:
                return Found(cls, cls.module_name, name)
            if name in self.source(cls.module_name).locals:
                raise Unsure
        return None

    def _in_module(self, module: str, name: str, outside: str = "") -> Found:
        for scope in (self._modules.get(module), self._modules.get(outside)):
            symbol = scope.names.get(name) if scope is not None else None
            if scope is not None and symbol is not None and symbol.node is not None:
                return Found(symbol.node, scope.fullname, name)
        raise Unsure


@lru_cache(maxsize=1024)
def _parse(path: str, module: str, package: bool, mtime: int, size: int) -> ModuleText:
    tree = ast.parse(Path(path).read_bytes())
    classes: dict[str, list[ast.ClassDef]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            classes.setdefault(node.name, []).append(node)
    imports: dict[str, tuple[str, str]] = {}
    values: dict[str, list[ast.expr]] = {}
    stars: list[str] = []
    for statement in _statements(tree.body):
        if isinstance(statement, ast.ImportFrom):
            source = _absolute(statement, module, package)
            imports |= {alias.asname or alias.name: (source, alias.name) for alias in statement.names}
            stars += [source for alias in statement.names if alias.name == "*"]
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    values.setdefault(target.id, []).append(statement.value)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            values.setdefault(statement.target.id, []).append(statement.value)
        elif isinstance(statement, _TYPE_STATEMENT) and not statement.type_params:
            values.setdefault(statement.name.id, []).append(statement.value)
    return ModuleText(classes, imports, values, stars, set(_locals(tree)))


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those under `if TYPE_CHECKING:`, `try:` and the like."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            for _, part in ast.iter_fields(statement):
                if isinstance(part, list):
                    yield from _statements(one for one in part if isinstance(one, ast.stmt))
                    for handler in part:
                        if isinstance(handler, ast.ExceptHandler):
                            yield from _statements(handler.body)


def _locals(tree: ast.Module) -> Iterator[str]:
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    for node in (node for function in functions for node in ast.walk(function)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]


def _absolute(statement: ast.ImportFrom, module: str, package: bool) -> str:
    if not statement.level:
        return statement.module or ""
    parts = module.split(".")
    above = parts[: len(parts) - statement.level + package]
    return ".".join([*above, *filter(None, [statement.module])])
