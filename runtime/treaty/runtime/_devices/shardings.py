"""Where arrays go: shardings by the names of dims, by the paths of leaves, or as they are given."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from treaty.runtime._errors import show_keys
from treaty.runtime._state.abstract import abstract
from treaty.runtime._state.by_schema import StateForm
from treaty.runtime._state.declared import Declared, Keys, declared_arrays
from treaty.runtime._state.explain import describe
from treaty.runtime._state.registry import codec_of_class
from treaty.runtime._trees import flatten
from treaty.schema import Schema, TreatyError, ir

_T = TypeVar("_T")
_Axis: TypeAlias = str | tuple[str, ...] | None
NameRules: TypeAlias = Mapping[str, _Axis]
PathRules: TypeAlias = Sequence[tuple[str, PartitionSpec]]
Rules: TypeAlias = NameRules | PathRules

_NOTHING: Final = "nothing"
_spec: Any = PartitionSpec  # JAX does not annotate its constructor


def shardings(cls: type[_T], mesh: Mesh, rules: Rules, dims: Mapping[str, int]) -> _T:
    """An instance of NamedShardings; what is not an array holds None.

    `rules` map dims to axes of the mesh: `{"d_ff": "model"}`. A dim is known by its own name and by those that its
    owners tie to it, `4*d_model` by that text; the first that has a rule decides, and an axis of the mesh serves one
    dim of an array only. Or they are pairs of a regular expression, searched in paths like `blocks/0/up/kernel`, and
    a PartitionSpec; the first that matches decides, and one must.
    """
    codec = codec_of_class(cls)
    check_placement(mesh, rules, None, None)
    shapes = abstract(cls, **dims)
    found = by_rules(codec.schema, codec.write(shapes), mesh, rules)
    structure: Any  # PyTreeDef's stub lacks unflatten
    leaves, structure = jax.tree.flatten(shapes)
    numbered = structure.unflatten(map(_Number, range(len(leaves))))
    placed: list[Any] = [None] * len(leaves)
    for path, number in flatten(_as_state(codec.schema, numbered)):
        if isinstance(number, _Number) and path in found:
            placed[number.index] = found[path]
    instance: _T = structure.unflatten(placed)
    return instance


def by_rules(schema: Schema, state: Any, mesh: Mesh, rules: Rules) -> dict[Keys, Sharding]:
    """The sharding of every jax array of a state dict, whose leaves may be abstract."""
    arrays = {path: one for path, one in declared_arrays(schema, state).items() if not one.on_host}
    if isinstance(rules, Mapping):
        _check_names(rules, arrays, mesh)
    else:
        _check_patterns(rules, mesh)
    found: dict[Keys, Sharding] = {}
    for path, declared in arrays.items():
        shape = _at(state, path).shape
        spec = _named_spec(declared, rules) if isinstance(rules, Mapping) else _matched_spec(path, shape, rules)
        found[path] = _fitting(NamedSharding(mesh, spec), shape, path)
    return found


def as_given(schema: Schema, given: Any, state: Any) -> dict[Keys, Sharding]:
    """Shardings that the caller made: one for all arrays, an instance of the class, or nested dicts of them."""
    arrays = {path: one for path, one in declared_arrays(schema, state).items() if not one.on_host}
    if isinstance(given, Sharding):
        return {path: _fitting(given, _at(state, path).shape, path) for path in arrays}
    tree = given if isinstance(given, dict) else _as_state(schema, given)
    if not isinstance(tree, dict):
        expected = "a Sharding, or an instance of the class or nested dicts that hold them"
        raise TreatyError(f"shardings: expected {expected}, got {type(given).__name__}")
    found = {}
    used: set[Keys] = set()
    for path in arrays:
        at, sharding = _above(tree, path)
        if isinstance(sharding, Sharding):
            found[path] = _fitting(sharding, _at(state, path).shape, path)
            used.add(at)
        elif sharding is not None:
            raise TreatyError(f"expected a Sharding or None, got {type(sharding).__name__} at {show_keys(path)}")
    useless = [
        f"shardings: expected an array for a device, got {found_there} at {show_keys(path)}"
        for path, one in flatten(tree)
        if isinstance(one, Sharding) and path not in used
        for found_there in _instead(state, path)
        if tree is given or found_there == _NOTHING  # an instance may hold one for every leaf, be it a number
    ]
    if useless:
        raise TreatyError("\n".join(useless))
    return found


def _instead(state: Any, path: Keys) -> Iterator[str]:
    """What is in place of an array: nothing at all, or a value; not what is None or empty this time."""
    for key in path:
        if state is None or state == {}:
            return
        if not isinstance(state, dict) or key not in state:
            yield _NOTHING
            return
        state = state[key]
    if state is not None and not isinstance(state, dict):
        yield describe(state)


def placement(
    schema: Schema, state: Any, mesh: Mesh | None, rules: Rules | None, shardings: Any, into: str | None
) -> dict[Keys, Sharding]:
    """Where the caller wants the jax arrays of a state dict; those without a wish are not in it."""
    check_placement(mesh, rules, shardings, into)
    if shardings is not None:
        return as_given(schema, shardings, state)
    if mesh is None:
        return {}
    if rules is None:
        return as_given(schema, NamedSharding(mesh, replicated()), state)
    return by_rules(schema, state, mesh, rules)


def check_placement(mesh: Mesh | None, rules: Rules | None, shardings: Any, into: str | None) -> None:
    if mesh is not None and not isinstance(mesh, Mesh):
        raise TreatyError(f"mesh: expected a jax.sharding.Mesh, got {type(mesh).__name__}")
    if rules is not None and (isinstance(rules, (str, bytes)) or not isinstance(rules, (Mapping, Sequence))):
        raise TreatyError(f"rules: expected a mapping of dims or pairs of patterns, got {type(rules).__name__}")
    if rules is not None and mesh is None:
        raise TreatyError("rules= needs mesh=, whose axes they name")
    if shardings is not None and mesh is not None:
        raise TreatyError("expected shardings= or mesh=, got both")
    if into is not None and (mesh is not None or shardings is not None):
        raise TreatyError('into="numpy" keeps arrays on the host; it goes with neither mesh= nor shardings=')


def replicated() -> PartitionSpec:
    return cast(PartitionSpec, _spec())


class _Number:
    """A stand-in for a leaf, to find out where its path leads."""

    def __init__(self, index: int) -> None:
        self.index = index


def _check_names(rules: NameRules, arrays: Mapping[Keys, Declared], mesh: Mesh) -> None:
    known = {name for one in arrays.values() for axis in one.axes for name in axis}
    for name, axes in rules.items():
        if name not in known:
            raise TreatyError(f"rules: no array has a dim {name!r}; there are {', '.join(sorted(known)) or 'none'}")
        if not isinstance(axes, (str, tuple, list, type(None))):
            raise TreatyError(f"rules: {name!r}: expected axes of the mesh by name, got {axes!r}")
        for axis in _tuple(axes):
            if axis not in mesh.shape:
                raise TreatyError(f"rules: {name!r}: the mesh has no axis {axis!r}; it has {', '.join(mesh.shape)}")


def _check_patterns(rules: PathRules, mesh: Mesh) -> None:
    for rule in rules:
        if not (isinstance(rule, (tuple, list)) and len(rule) == 2 and isinstance(rule[1], PartitionSpec)):
            raise TreatyError(f"rules: expected pairs of a pattern and a PartitionSpec, got {rule!r}")
        pattern, spec = rule
        try:
            re.compile(pattern)
        except (re.error, TypeError, RecursionError) as error:
            raise TreatyError(f"rules: expected a regular expression, got {pattern!r}: {error}") from error
        try:
            NamedSharding(mesh, spec)
        except (ValueError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            raise TreatyError(f"rules: {pattern!r}: expected a PartitionSpec of the mesh, got {reason}") from error


def _named_spec(declared: Declared, rules: NameRules) -> PartitionSpec:
    used: set[str] = set()
    spec: list[_Axis] = []
    for names in declared.axes[:-1] if isinstance(declared.type, ir.Key) else declared.axes:  # keys, not their words
        rule = next((rules[name] for name in names if name in rules), None)
        free = () if used.intersection(_tuple(rule)) else _tuple(rule)
        used.update(free)
        spec.append(free[0] if len(free) == 1 else free or None)
    return cast(PartitionSpec, _spec(*spec))


def _matched_spec(path: Keys, shape: tuple[int, ...], rules: PathRules) -> PartitionSpec:
    if math.prod(shape) == 1:
        return replicated()  # as every user of such rules expects: scalars need no rule
    name = "/".join(path)
    for pattern, spec in rules:
        if re.search(pattern, name):
            return spec
    raise TreatyError(f"rules: no pattern matches {name}; end with ('.*', PartitionSpec()) to replicate the rest")


def _fitting(sharding: Sharding, shape: tuple[int, ...], path: Keys) -> Sharding:
    try:
        sharding.shard_shape(shape)
    except (ValueError, TypeError, IndexError, AssertionError) as error:  # too many axes, sizes that do not divide
        reason = str(error).partition("\n")[0]
        raise TreatyError(
            f"expected a sharding that divides {list(shape)}, got {reason} at {show_keys(path)}"
        ) from error
    return sharding


def _tuple(axes: _Axis) -> tuple[str, ...]:
    return (axes,) if isinstance(axes, str) else tuple(axes or ())


def _as_state(schema: Schema, instance: Any) -> Any:
    """An instance in the form of a state dict, whatever stands there in place of arrays."""
    return StateForm(schema, lambda key: {"data": key}).root(instance)


def _at(state: Any, path: Keys) -> Any:
    for key in path:
        state = state[key]
    return state


def _above(tree: Any, path: Keys) -> tuple[Keys, Any]:
    """What a tree of shardings says about a path, and where: a sharding above it counts for all below."""
    for depth, key in enumerate(path):
        if not isinstance(tree, dict):
            return path[:depth], tree
        tree = tree.get(key)
    return path, None if isinstance(tree, dict) else tree
