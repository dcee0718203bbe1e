"""numpy calls typed as they would be through a variable.

In `return {"w": np.zeros((3,), np.float64)}` the expected dtype[float32] refutes numpy's overload for type[float64], so
that mypy takes the last one, whose dtype[Any] fits every place. Here such a call is inferred again with nothing
expected. What numpy's stubs leave open even then comes from literals: a dtype by its name, the rank of a shape.
"""

from collections.abc import Callable
from typing import Final

from mypy.nodes import Expression, ListExpr, RefExpr, StarExpr, StrExpr, SymbolTableNode, TupleExpr, TypeAlias, TypeInfo
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import AnyType, Instance, TupleType, Type, UnionType, get_proper_type

from treaty.generator._mypy_notes import JAX_ARRAY
from treaty.schema.dtypes import BY_NAME

_ARRAY: Final = "numpy.ndarray"
_PYTHON: Final = {"builtins.bool": "bool", "builtins.float": "float64", "builtins.complex": "complex128"}
# Functions whose `dtype` is the dtype of the array they return; zeros, ones and empty are _ConstructorEmpty.
_TAKE_DTYPE: Final = (
    ".astype",
    ".array",
    ".asarray",
    ".ascontiguousarray",
    ".full",
    ".full_like",
    ".zeros_like",
    ".ones_like",
    ".empty_like",
    "._ConstructorEmpty.__call__",
)


class NumpyCalls:
    """The hook of one plugin; `lookup` finds a symbol by its full name."""

    def __init__(self, lookup: Callable[[str], SymbolTableNode | None]) -> None:
        self._lookup = lookup
        self._inferring = False

    def hook(self, fullname: str) -> Callable[[FunctionContext | MethodContext], Type] | None:
        if not fullname.startswith("numpy."):
            return None

        def returns(ctx: FunctionContext | MethodContext) -> Type:
            try:
                return self._returns(fullname, ctx)
            except Exception:  # types we do not understand must never stop mypy
                if ctx.api.options.show_traceback:
                    raise
                return ctx.default_return_type

        return returns

    def _returns(self, fullname: str, ctx: FunctionContext | MethodContext) -> Type:
        found = _arrays(ctx.default_return_type)
        if len(found) != 1 or not _is_vague(found[0]) or self._inferring or not _is_exact_place(ctx):
            return ctx.default_return_type
        array = self._without_context(ctx) or found[0]
        if fullname.endswith(_TAKE_DTYPE) and _has_any_dtype(array):
            array = self._with_dtype(array, _argument(ctx, "dtype"))
        return _with_rank(array, _argument(ctx, "shape"), ctx) if _has_any_shape(array) else array

    def _without_context(self, ctx: FunctionContext | MethodContext) -> Instance | None:
        # While mypy tries the items of a union argument one by one, it must not be asked about the same call again.
        checker = getattr(ctx.api, "expr_checker", None)
        if not isinstance(ctx.context, Expression) or getattr(checker, "type_overrides", True):
            return None
        self._inferring = True
        try:
            with ctx.api.msg.filter_errors() as errors:
                found = _arrays(ctx.api.get_expression_type(ctx.context))
        finally:
            self._inferring = False
        return found[0] if len(found) == 1 and not errors.has_new_errors() else None

    def _with_dtype(self, array: Instance, given: Expression | None) -> Instance:
        name = given.value if isinstance(given, StrExpr) else ""
        if isinstance(given, RefExpr):
            name = _PYTHON.get(given.fullname, "")
        if name not in BY_NAME or BY_NAME[name].numpy.type.__module__ != "numpy":
            return array
        symbol, dtype = self._lookup(f"numpy.{name}"), self._lookup("numpy.dtype")
        scalar = _instance(symbol.node if symbol is not None else None)
        if scalar is None or dtype is None or not isinstance(dtype.node, TypeInfo):
            return array
        return array.copy_modified(args=[array.args[0], Instance(dtype.node, [scalar])])


def _arrays(type: Type) -> list[Instance]:
    """The ndarray types among the items of a union, or the type itself."""
    return [item for item in _items(type) if item.type.fullname == _ARRAY and len(item.args) == 2]


def _items(type: Type) -> list[Instance]:
    proper = get_proper_type(type)
    items = [get_proper_type(item) for item in proper.items] if isinstance(proper, UnionType) else [proper]
    return [item for item in items if isinstance(item, Instance)]


def _is_exact_place(ctx: FunctionContext | MethodContext) -> bool:
    """Whether someone declared the dtype that is expected here: a leaf of a state dict, or a return type.

    Elsewhere it may be the inferred type of a variable that merely held another array before.
    """
    expected = ctx.api.type_context[-1]
    if expected is None or not any(not _has_any_dtype(array) for array in _arrays(expected)):
        return False
    if any(item.type.fullname == JAX_ARRAY for item in _items(expected)):
        return True
    returns: list[Type] = getattr(ctx.api, "return_types", [])
    return bool(returns) and get_proper_type(returns[-1]) == get_proper_type(expected)


def _is_vague(array: Instance) -> bool:
    return _has_any_dtype(array) or _has_any_shape(array)


def _has_any_dtype(array: Instance) -> bool:
    return _is_any(array.args[1])


def _has_any_shape(array: Instance) -> bool:
    return _is_any(array.args[0])


def _is_any(type: Type) -> bool:
    """Any, dtype[Any] or tuple[Any, ...]."""
    proper = get_proper_type(type)
    if isinstance(proper, Instance) and len(proper.args) == 1:
        proper = get_proper_type(proper.args[0])
    return isinstance(proper, AnyType)


def _argument(ctx: FunctionContext | MethodContext, name: str) -> Expression | None:
    """The expression given for a parameter."""
    if name not in ctx.callee_arg_names:
        return None
    given = ctx.args[ctx.callee_arg_names.index(name)]
    return given[0] if len(given) == 1 else None


def _with_rank(array: Instance, shape: Expression | None, ctx: FunctionContext | MethodContext) -> Instance:
    if not isinstance(shape, (ListExpr, TupleExpr)) or any(isinstance(item, StarExpr) for item in shape.items):
        return array
    size: Type = ctx.api.named_generic_type("builtins.int", [])
    rank = TupleType([size] * len(shape.items), ctx.api.named_generic_type("builtins.tuple", [size]))
    return array.copy_modified(args=[rank, array.args[1]])


def _instance(node: object) -> Instance | None:
    """The instance type that a class or an alias names; np.float32 is an alias in numpy's stubs."""
    if isinstance(node, TypeInfo):
        return Instance(node, [])
    target = get_proper_type(node.target) if isinstance(node, TypeAlias) else None
    return target if isinstance(target, Instance) else None
