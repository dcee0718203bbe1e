"""Which stored dtypes may stand for which declared ones: a closed table that keeps every value, or what the caller asks for."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs
from attrs import frozen

from treaty.runtime._errors import Mismatch, StateMismatchError
from treaty.runtime._state.declared import Declared, declared_arrays
from treaty.runtime._state.explain import dims_of
from treaty.runtime._state.registry import Codec, is_class
from treaty.runtime._state.state_dict import explain, explain_quickly
from treaty.runtime._trees import Path, abstract, struct
from treaty.schema import Schema, TreatyError, ir
from treaty.schema.dtypes import BY_NAME, WIDER
from treaty.schema.evolution.resolution import EACH, Action, Verb
from treaty.schema.gathering import gathered_path


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


@frozen
class FittedDtypes:
    """The shapes of a state dict, with the dtypes that its arrays will have, and their declarations."""

    shapes: Any
    declared: dict[Path, Declared]
    converted: Mapping[Path, tuple[str, str]] = MappingProxyType(
        {}
    )  # of those that change: the stored and the declared dtype


def fit_dtypes(
    codec: Codec[Any], target: Any, tree: Any, dims: Mapping[str, int] | None, cast: Mapping[str, str] | None
) -> FittedDtypes:
    """What a state dict will be with the declared dtypes; or all that is wrong."""
    shapes = abstract(tree)
    found = _mismatches(codec, target, shapes, dims)
    if not found:
        return FittedDtypes(shapes, declared_arrays(codec.schema, shapes))
    try:
        declared = declared_arrays(codec.schema, shapes)
    except (LookupError, AttributeError, TypeError):  # of another structure: no cast will help
        raise StateMismatchError(found, _sizes_hint(codec, shapes, dims)) from None
    refused: dict[str, set[str]] = {}
    converted: dict[Path, tuple[str, str]] = {}
    for path, one in declared.items():
        *above, key = path
        node = shapes
        for step in above:
            node = node[step]
        leaf: Any = node.get(key) if type(node) is dict else None
        stored = getattr(getattr(leaf, "dtype", None), "name", None)
        if not isinstance(one.type, ir.Array) or stored is None or stored == one.type.dtype:
            continue
        if stored in one.cast_from or may_cast(stored, one.type.dtype, cast):
            node[key] = struct(leaf.shape, BY_NAME[one.type.dtype].numpy)
            converted[path] = stored, one.type.dtype
        elif stored in BY_NAME:
            refused.setdefault(stored, set()).add(one.type.dtype)
    found = _mismatches(codec, target, shapes, dims)
    if found:
        possible = {stored: min(wanted) for stored, wanted in refused.items() if len(wanted) == 1}
        hint = [f"to convert what is stored, pass cast={possible}"] if possible else []
        raise StateMismatchError(found, [*hint, *_sizes_hint(codec, shapes, dims)])
    return FittedDtypes(shapes, declared, converted)


def with_conversions(
    schema: Schema, leaves: Sequence[Action], converted: Mapping[Path, tuple[str, str]]
) -> Sequence[Action]:
    """The leaves of a plan, with the conversions that only the stored arrays show."""
    known = {_pattern(schema.gathered, gathered_path(schema, path)): dtypes for path, dtypes in converted.items()}
    return [_converted(one, *known[one.path]) if one.path in known else one for one in leaves]


def _converted(leaf: Action, stored: str, declared: str) -> Action:
    if leaf.verb not in ("as-is", "renamed", "widened"):
        return leaf
    verb: Verb = "widened" if declared in WIDER.get(stored, ()) else "cast"
    return attrs.evolve(leaf, verb=verb, note=f"{stored} to {declared}")


def _pattern(schema: Schema, path: Path) -> Path:
    """The path of a leaf in the list of a plan, which has all items of a list or dict in one."""
    type: ir.Type = ir.Node(schema.root)
    found: list[str] = []
    for key in path:
        parts = ir.parts(schema, type, (EACH,)) or {}
        found.append(key if key in parts else EACH)
        type = parts.get(found[-1], ir.Untyped())
    return tuple(found)


def _sizes_hint(codec: Codec[Any], shapes: Any, dims: Mapping[str, int] | None) -> list[str]:
    """What the checkpoint says of dims that the caller gave."""
    stored = dims_of(codec.schema, shapes) if dims and type(shapes) is dict else {}
    others = {name: stored[name] for name, size in (dims or {}).items() if stored.get(name, size) != size}
    return [f"of these sizes the checkpoint has others: dims={others}"] if others else []


def _mismatches(codec: Codec[Any], target: Any, shapes: Any, dims: Mapping[str, int] | None) -> tuple[Mismatch, ...]:
    return explain_quickly(codec, shapes, dims or {}) if is_class(target) else explain(target, shapes, dims=dims)
