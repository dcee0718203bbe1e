"""Which stored dtypes may stand for which declared ones: a closed table that keeps every value, or what the caller asks for."""

from collections.abc import Mapping
from typing import Any, Final

from treaty.runtime._errors import Mismatch, StateMismatchError
from treaty.runtime._state.declared import Declared, declared_arrays
from treaty.runtime._state.registry import Codec, is_class
from treaty.runtime._state.state_dict import explain, explain_quickly
from treaty.runtime._trees import Path, abstract, struct
from treaty.schema import TreatyError, ir
from treaty.schema.dtypes import BY_NAME

WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "bfloat16": ("float32", "float64"),
    "float16": ("float32", "float64"),
    "float32": ("float64",),
    "complex64": ("complex128",),
    "int8": ("int16", "int32", "int64"),
    "int16": ("int32", "int64"),
    "int32": ("int64",),
    "uint8": ("uint16", "uint32", "uint64"),
    "uint16": ("uint32", "uint64"),
    "uint32": ("uint64",),
}


def check_cast(cast: Mapping[str, str] | None) -> None:
    if cast is None:
        return
    if not isinstance(cast, Mapping):
        raise TreatyError(f"cast: expected a mapping of dtypes to dtypes, got {type(cast).__name__}")
    for name in [*cast, *cast.values()]:
        if type(name) is not str or name not in BY_NAME:
            raise TreatyError(f"cast={dict(cast)}: expected names of dtypes, got {name!r}")


def may_cast(stored: str, declared: str, cast: Mapping[str, str] | None) -> bool:
    return declared in WIDER.get(stored, ()) or (cast or {}).get(stored) == declared


def fit_dtypes(
    codec: Codec[Any], target: Any, tree: Any, dims: Mapping[str, int] | None, cast: Mapping[str, str] | None
) -> tuple[Any, dict[Path, Declared]]:
    """The shapes of a state dict, with the dtypes that its arrays will have, and their declarations; or all that is wrong."""
    shapes = abstract(tree)
    found = _mismatches(codec, target, shapes, dims)
    if not found:
        return shapes, declared_arrays(codec.schema, shapes)
    try:
        declared = declared_arrays(codec.schema, shapes)
    except (KeyError, AttributeError, TypeError):  # of another structure: no cast will help
        raise StateMismatchError(found) from None
    for path, one in declared.items():
        *above, key = path
        node = shapes
        for step in above:
            node = node[step]
        leaf = node.get(key)
        stored = getattr(getattr(leaf, "dtype", None), "name", None)
        if isinstance(one.type, ir.Array) and stored is not None and may_cast(stored, one.type.dtype, cast):
            node[key] = struct(leaf.shape, BY_NAME[one.type.dtype].numpy)
    found = _mismatches(codec, target, shapes, dims)
    if found:
        raise StateMismatchError(found)
    return shapes, declared


def _mismatches(codec: Codec[Any], target: Any, shapes: Any, dims: Mapping[str, int] | None) -> tuple[Mismatch, ...]:
    return explain_quickly(codec, shapes, dims or {}) if is_class(target) else explain(target, shapes, dims=dims)
