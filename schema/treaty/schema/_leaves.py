"""Annotations of leaves: arrays, keys, scalars; and what is said of annotations that cannot be stored."""

import sys
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Final, assert_never

import jaxtyping
import numpy as np

from treaty.schema import dtypes, ir
from treaty.schema._errors import SchemaError
from treaty.schema.dims import parse_dims

SCALARS: Final[Mapping[Any, str]] = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    bytes: "bytes",
    complex: "complex",
    type(None): "none",
    None: "none",
}
TYPE_ALIAS: Final[Any] = getattr(typing, "TypeAliasType", ())  # `type X = ...`, from Python 3.12 on
UNIONS: Final = (typing.Union, types.UnionType)
# numpy 2.0 takes these for one of their subclasses: np.floating for float64.
_ABSTRACT: Final = (
    np.generic,
    np.number,
    np.integer,
    np.signedinteger,
    np.unsignedinteger,
    np.inexact,
    np.floating,
    np.complexfloating,
    np.flexible,
    np.character,
)

WRITE_STATE: Final = "write @state above the class"
WRITE_PARTIAL: Final = (
    "write Annotated[Partial, Fields(func=the_function, args=(Float32[Array, 'd'],), keywords={'scale': float})]"
)
RESOLVE: Final = "names in annotations must be importable from the class's module when the code runs"
CIRCLE: Final = '; where two modules need each other, write `import pkg.other` and "pkg.other.Name"'
UNION: Final = "a union cannot be restored without knowing which; write X | None, or one class with optional fields"
CAN_STORE: Final = (
    "expected an array (Float32[Array, 'a b']), a Python or numpy scalar, an enum, a state class, "
    "list, tuple, dict[str, X], X | None, or Any for an unchecked subtree"
)


def array(annotation: Any) -> ir.Type:
    dims = parse_dims(annotation.dim_str)
    names = annotation.dtypes
    if names == ("prng_key",):
        return array_of(annotation.array_type, "key", dims)
    spelled = [name for name in names if name in dtypes.BY_NAME] if isinstance(names, (tuple, list)) else []
    if len(spelled) != 1:
        name = annotation.__name__.partition("[")[0]
        raise SchemaError(f"{name}[...]: a stored array has one dtype; write Float32[...], BFloat16[...], …")
    return array_of(annotation.array_type, spelled[0], dims)


def array_of(array_type: Any, dtype: str, dims: tuple[Any, ...]) -> ir.Type:
    jax = sys.modules.get("jax")
    host = array_type is np.ndarray or typing.get_origin(array_type) is np.ndarray
    if not host and (jax is None or array_type is not jax.Array):
        raise SchemaError(f"array type {show(array_type)}: expected jax.Array or np.ndarray")
    impl = dtypes.key_impl(dtype)
    if impl is not None or dtype == "key":
        if host:
            raise SchemaError(f"{dtype}: PRNG keys are jax arrays; write Array, not np.ndarray")
        return ir.Key(dims, impl)
    return ir.Array(dtype, dims, host)


def numpy_scalar(cls: type) -> str:
    try:
        name = "" if cls in _ABSTRACT else np.dtype(cls).name
    except TypeError:
        name = ""
    if name not in dtypes.BY_NAME:
        raise SchemaError(f"{cls.__name__}: expected one numpy scalar type, such as np.float32")
    return name


def check_static(type: ir.Type) -> None:
    """Static values are compared and hashed by JAX, so they must be plain values."""
    inner = type.item if isinstance(type, ir.Optional) else type
    if isinstance(inner, ir.Tuple):
        for item in inner.items:
            check_static(item)
    elif isinstance(inner, ir.Sequence) and inner.immutable:
        check_static(inner.item)
    elif not isinstance(inner, (ir.Scalar, ir.Enum, ir.NumpyScalar)):
        if not isinstance(
            inner, (ir.Array, ir.Key, ir.Fitted, ir.Node, ir.Sequence, ir.Dict, ir.Optional, ir.Partial, ir.Untyped)
        ):
            assert_never(inner)
        raise SchemaError(
            f"a static field must be hashable, got {ir.describe(type)}; "
            "expected a Python scalar, str, enum, or a tuple of them"
        )


def is_partial(cls: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and cls is jax.tree_util.Partial


def is_pytree(annotation: Any) -> bool:
    # Asking jaxtyping for PyTree imports jax: only worth it where an annotation may be one, and then jax is here.
    return isinstance(annotation, type) and "jax" in sys.modules and issubclass(annotation, jaxtyping.PyTree)


def hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def show(annotation: Any) -> str:
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__.rpartition(".")[2]  # jax.Array's name has its module in it
    return str(annotation)


def no_such_field(name: str, cls: str, fields: Iterable[str]) -> str:
    return f"Fields({name}=...): {cls} has no field {name!r}; its fields: {', '.join(fields) or 'none'}"


def no_type_for(names: Iterable[str], cls: str) -> str:
    added = ", ".join(f"{name}=..." for name in names)
    return f"Fields(...): no type for {', '.join(names)} of {cls}; add {added}"


def refuse(annotation: Any) -> str:
    jax = sys.modules.get("jax")
    if annotation is np.ndarray or (jax is not None and annotation is jax.Array):
        return f"{show(annotation)} has no dtype and shape; write Float32[{show(annotation)}, 'd_in d_out']"
    if is_partial(annotation):
        return WRITE_PARTIAL
    if annotation in (list, tuple, dict):
        return f"{show(annotation)} has no item type; write {show(annotation)}[...], or Any for an unchecked subtree"
    return f"cannot store {show(annotation)}; {CAN_STORE}"
