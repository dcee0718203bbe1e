"""The mypy plugin: `plugins = ["treaty.generator.mypy_plugin"]`.

Without it mypy sees @state through dataclass_transform, and generated code needs nothing more. The plugin adds
`attrs.evolve` and `attrs.fields` on state classes, mistakes in declarations (code `treaty`), which mypy otherwise leaves
to `treaty generate`, and the dtypes of numpy calls that mypy would take for Any.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mypy.errorcodes import ErrorCode
from mypy.nodes import ARG_NAMED, ARG_NAMED_OPT, AssignmentStmt, CallExpr, Context, NameExpr, Var
from mypy.options import Options
from mypy.plugin import ClassDefContext, FunctionContext, MethodContext, Plugin
from mypy.plugins.attrs import attr_attrib_makers, attr_class_maker_callback, attr_tag_callback
from mypy.plugins.common import add_attribute_to_class
from mypy.server.trigger import make_wildcard_trigger
from mypy.types import AnyType, CallableType, LiteralType, Type, TypeOfAny

import treaty.schema
from treaty.generator._mypy_names import Names
from treaty.generator._mypy_notes import DECLARE, TAG
from treaty.generator._mypy_numpy import NumpyCalls
from treaty.generator._mypy_read import Verdict, read

_SOURCES: Final = [
    *Path(__file__).parent.glob("_mypy_*.py"),
    *Path(treaty.schema.__file__).parent.glob("*.py"),
]
# mypy drops its cache when this changes; of the plugin's own text it looks at this file only.
__version__ = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_SOURCES))).hexdigest()

TREATY: Final = ErrorCode("treaty", "Check that a state class can be stored", "Treaty")

# How attrs documents the extension of mypy's plugin to field specifiers of one's own.
attr_attrib_makers.add(f"{DECLARE}.field")


def plugin(version: str) -> type[Plugin]:
    """mypy's entry point."""
    return TreatyPlugin


class TreatyPlugin(Plugin):
    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._numpy = NumpyCalls(self.lookup_fully_qualified)

    def get_class_decorator_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        return _tag if fullname == f"{DECLARE}.state" else None

    def get_class_decorator_hook_2(self, fullname: str) -> Callable[[ClassDefContext], bool] | None:
        return _declared if fullname == f"{DECLARE}.state" else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        return self._numpy.hook(fullname)

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return self._numpy.hook(fullname)


def _tag(ctx: ClassDefContext) -> None:
    """Runs while names are still being bound: leaves marks for the hook below, and for subclasses."""
    attr_tag_callback(ctx)
    ctx.cls.info.metadata[TAG] = {}


def _declared(ctx: ClassDefContext) -> bool:
    """Runs when every name is bound. False asks mypy for another round, when a base class is not done yet."""
    if not _as_attrs(ctx):
        return False
    try:
        reading = read(ctx.cls.info, Names(ctx.api.modules, ctx.api.options.shadow_file or ()))
        for problem in reading.problems:
            ctx.api.fail(problem.text, _line_of(problem.field, ctx), code=TREATY)
        _depend(reading, ctx)
    except Exception:  # a declaration we do not understand must never stop mypy
        if ctx.api.options.show_traceback:
            raise
    return True


def _as_attrs(ctx: ClassDefContext) -> bool:
    """mypy's own attrs plugin, told what @state passes to attrs.frozen."""
    given = {"kw_only": "True", "eq": "False"}
    bool_type = ctx.api.named_type("builtins.bool")
    callee = NameExpr("frozen")
    callee.node = Var(
        "frozen",
        CallableType(
            [bool_type] * len(given),
            [ARG_NAMED_OPT] * len(given),
            list(given),
            AnyType(TypeOfAny.special_form),
            ctx.api.named_type("builtins.function"),
        ),
    )
    decorator = CallExpr(callee, list(map(_constant, given.values())), [ARG_NAMED] * len(given), list(given))
    decorator.set_line(ctx.reason)
    return attr_class_maker_callback(
        ClassDefContext(ctx.cls, decorator, ctx.api), auto_attribs_default=True, frozen_default=True, slots_default=True
    )


def _depend(reading: Verdict, ctx: ClassDefContext) -> None:
    """Dims are no part of the types that mypy compares: a literal type of their digest lets it see them change."""
    text = ctx.api.named_type("builtins.str")
    digest = LiteralType(reading.digest, text)
    name = "__treaty_digest__"
    add_attribute_to_class(
        ctx.api, ctx.cls, name, digest, override_allow_incompatible=True, is_classvar=True, overwrite_existing=True
    )
    for fullname in reading.classes - {ctx.cls.fullname}:
        ctx.api.add_plugin_dependency(make_wildcard_trigger(fullname))


def _constant(name: str) -> NameExpr:
    expr = NameExpr(name)
    expr.fullname = f"builtins.{name}"
    return expr


def _line_of(field: str, ctx: ClassDefContext) -> Context:
    for statement in ctx.cls.defs.body:
        if isinstance(statement, AssignmentStmt):
            for target in statement.lvalues:
                if isinstance(target, NameExpr) and target.name == field:
                    return statement
    return ctx.cls
