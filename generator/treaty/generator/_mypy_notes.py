"""The parts of an annotation that need no other annotation: literals, notes in Annotated, arrays, kinds of classes."""

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final

import jaxtyping
import ml_dtypes
import numpy as np
from attrs import frozen
from mypy.nodes import TypeInfo

from treaty.generator._mypy_names import Names, Position, Unsure
from treaty.schema import ArraySpec, Dims, Keys, Length, SchemaError, _leaves, dtypes, ir
from treaty.schema.dims import Dim, parse_dims

TAG: Final = "treaty"  # in the metadata that mypy keeps of a class: it is declared with @state
DECLARE: Final = "treaty.schema._declare"
JAX_ARRAY: Final = "jax._src.basearray.Array"

_NOTES: Final[Mapping[str, Callable[..., object]]] = {
    "Dims": Dims,
    "Length": Length,
    "Keys": Keys,
    "ArraySpec": ArraySpec,
}
_HARMLESS: Final = {"dataclass", "dataclasses.dataclass", "final", "typing.final", "runtime_checkable"}
_PLAIN: Final = {"builtins", "collections", "numpy", "types", "typing"}  # no attrs class in these


FROM_INIT: Final = object()  # what `note` gives for FromInit(...): init says the type, whatever is annotated


@frozen
class Given:
    """`Fields(...)` as written."""

    types: Mapping[str, ast.expr]


def note(expr: ast.expr, names: Names, place: Position) -> object:
    """Dims, Length, Keys or ArraySpec, made from literal arguments, Given, or FROM_INIT; None for what other libraries put there."""
    if isinstance(expr, ast.Constant):
        return None
    found = names.find(expr.func if isinstance(expr, ast.Call) else expr, place)
    name = found.fullname.removeprefix(f"{DECLARE}.")
    if name == "FromInit":
        return FROM_INIT
    if name not in (*_NOTES, "Fields"):
        if isinstance(expr, ast.Call) and isinstance(found.node, TypeInfo) and not name.startswith("treaty."):
            return None
        raise Unsure
    if not isinstance(expr, ast.Call):
        raise SchemaError(f"Annotated[..., {name}]: write {name}(...) with its arguments")
    named = keywords(expr)
    if name == "Fields":
        return Given(named)
    try:
        return _NOTES[name](*map(literal, expr.args), **{key: literal(value) for key, value in named.items()})
    except TypeError as error:  # mypy checks no call inside Annotated
        raise SchemaError(f"{ast.unparse(expr)}: {error}") from None


def jaxtyping_array(name: str, args: list[ast.expr], names: Names, place: Position) -> ir.Type:
    """`Float32[Array, "a b"]`, by jaxtyping's own table of dtypes."""
    spelled = getattr(getattr(jaxtyping, name, None), "dtypes", None)
    text = literal(args[-1])
    if len(args) != 2 or not isinstance(text, str) or spelled is None:
        raise Unsure
    dims = parse_dims(text)
    if spelled == ("prng_key",):
        return array_of(args[0], "key", dims, names, place)
    known = [one for one in spelled if one in dtypes.BY_NAME] if isinstance(spelled, (tuple, list)) else []
    if len(known) != 1:
        raise SchemaError(f"{name}[...]: a stored array has one dtype; write Float32[...], BFloat16[...], …")
    return array_of(args[0], known[0], dims, names, place)


def array_of(expr: ast.expr, dtype: str, dims: tuple[Dim, ...], names: Names, place: Position) -> ir.Type:
    expr = unquoted(expr)
    found = names.find(expr.value if isinstance(expr, ast.Subscript) else expr, place)
    if not isinstance(found.node, TypeInfo):
        raise Unsure
    if found.fullname == "numpy.ndarray":
        return _leaves.array_of(np.ndarray, dtype, dims)
    if found.fullname != JAX_ARRAY:
        raise SchemaError(f"array type {ast.unparse(expr)}: expected jax.Array or np.ndarray")
    impl = dtypes.key_impl(dtype)
    return ir.Key(dims, impl) if impl is not None or dtype == "key" else ir.Array(dtype, dims)


def kind_of(info: TypeInfo) -> ir.DeclaredKind | None:
    """As `treaty.schema._classes.class_kind`; a subclass of an attrs class is one, decorated or not."""
    if TAG in info.metadata:
        return "state"
    if any("attrs" in cls.metadata or "attrs_tag" in cls.metadata for cls in info.mro):
        return "attrs"
    if any(cls.is_named_tuple for cls in info.mro):
        return "namedtuple"
    return "typeddict" if info.typeddict_type is not None else None


def is_surely_plain(info: TypeInfo, names: Names) -> bool:
    """Whether no decorator or metaclass can have made it an attrs class behind mypy's back."""
    for cls in info.mro[:-1]:
        if cls.module_name.partition(".")[0] not in _PLAIN:
            statement = names.class_def(cls)
            decorators = {ast.unparse(one).partition("(")[0] for one in statement.decorator_list}
            if not decorators <= _HARMLESS or statement.keywords:
                return False
    return not info.fallback_to_any


def constructor_names(info: TypeInfo, names: Names) -> list[str]:
    """The fields of a class that another library owns."""
    if "namedtuple" in info.metadata:
        return list(info.metadata["namedtuple"]["fields"])
    if "attrs" in info.metadata:
        return [str(one["name"]) for one in info.metadata["attrs"]["attributes"]]
    if "dataclass" in info.metadata:
        return [str(one["name"]) for one in info.metadata["dataclass"]["attributes"] if one["is_in_init"]]
    if kind_of(info) is not None or "dataclass_tag" in info.metadata or not is_surely_plain(info, names):
        raise Unsure
    raise SchemaError(f"Fields(...): expected a NamedTuple, dataclass or attrs class, got {info.name}")


def numpy_class(fullname: str) -> type[np.generic] | None:
    """The scalar class that a name of numpy or ml_dtypes stands for; to mypy np.float32 is an alias."""
    for module in (np, ml_dtypes):
        found = getattr(module, fullname.removeprefix(f"{module.__name__}."), None)
        if fullname.startswith(f"{module.__name__}.") and isinstance(found, type) and issubclass(found, np.generic):
            return found
    return None


def keywords(call: ast.Call) -> dict[str, ast.expr]:
    """The keyword arguments of a call, where it says them all."""
    if any(one.arg is None for one in call.keywords):
        raise Unsure
    return {str(one.arg): one.value for one in call.keywords}


def unquoted(expr: ast.expr) -> ast.expr:
    """The expression inside a string annotation."""
    if isinstance(expr, ast.Constant) and isinstance(expr.value, str):
        try:
            return ast.parse(expr.value.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            raise Unsure from None
    return expr


def literal(expr: ast.expr) -> Any:
    try:
        return ast.literal_eval(expr)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise Unsure from None


def if_literal(name: str, expr: ast.expr) -> dict[str, Any]:
    """A value by its name, where the text tells it."""
    try:
        return {name: literal(expr)}
    except Unsure:
        return {}


def texts(expr: ast.expr | None) -> tuple[str, ...]:
    """A tuple or list of strings; () where it is none, which mypy reports, or computed."""
    found: Any = () if expr is None else if_literal("texts", expr).get("texts")
    is_texts = isinstance(found, (tuple, list)) and all(isinstance(one, str) for one in found)
    return tuple(found) if is_texts else ()
