"""Converts trees of optax's states to trees of their twins and back; `treaty.schema.library.optax` has the twins.

Both directions walk the value. Where a wanted type is given, it is walked beside the value: it names the members of
chains, chooses between several twins of one class, and says which of optax's own classes are kept.
"""

import importlib
import sys
import types
import typing
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Annotated, Any, Final, TypeVar, Union

import attrs
import jax
from attrs import frozen

from treaty.schema._declare import options_of
from treaty.schema._errors import SchemaError, TreatyError

_UNIONS: Final = (Union, types.UnionType)
_NO_OPTAX: Final = "expected optax to be installed, got none; run: pip install optax"


class Chain:
    """A chain whose members have names: a @state class of fields with the keys "0", "1", … in the chain's order.

    It is stored as the chain's tuple is, and `to_optax` makes that tuple.
    """

    __slots__ = ()


@frozen
class Twins:
    """Which class stands for which of optax's."""

    names: Mapping[type, str]  # twin -> optax's name; where one name has several twins, the usual one is first
    beside: Mapping[str, str]  # for names that optax does not export: a public one of the same module

    def from_optax(self, state: object, want: Any) -> Any:
        optax = _optax()
        usual: dict[Any, type] = {}
        for twin, name in self.names.items():
            usual.setdefault(self._theirs(optax, name), twin)
        return _FromOptax(self.names, usual).convert(state, want, "$")

    def to_optax(self, state: object) -> Any:
        optax = _optax()

        def convert(value: Any, _key: object = None, _step: str = "") -> Any:
            name = self.names.get(type(value))
            if name is not None:
                theirs = self._theirs(optax, name)
                if theirs is None:
                    raise TreatyError(f"expected an optax that has {name}, got {optax.__version__}; upgrade optax")
                return theirs(**{one.name: convert(getattr(value, one.name)) for one in attrs.fields(type(value))})
            if isinstance(value, Chain):
                return tuple(convert(getattr(value, name)) for name in _chain_fields(type(value)))
            return _rebuild(value, convert)

        return convert(state)

    def _theirs(self, optax: ModuleType, name: str) -> Any:
        public = self.beside.get(name)
        home = optax if public is None else sys.modules[getattr(optax, public).__module__]
        return getattr(home, name, None)


@frozen
class _FromOptax:
    names: Mapping[type, str]
    usual: Mapping[Any, type]  # optax's class -> the twin that stands for it where no type is wanted

    def convert(self, value: Any, want: Any, path: str) -> Any:
        want = _plain(want, value)
        wanted = typing.get_origin(want) or want
        twin = self.usual.get(type(value))
        if isinstance(wanted, type) and issubclass(wanted, Chain):
            return self._chain(value, want, wanted, path)
        if wanted in self.names:
            if twin is None or self.names[twin] != self.names[wanted]:
                raise _mismatch(f"optax's {self.names[wanted]}, for {wanted.__name__}", value, path)
            return self._twin(value, wanted, _arguments(want), path)
        if type(value) is wanted and _is_optax(value):
            return value  # the schema keeps optax's own class, with Annotated[Class, Fields(...)]
        if (expected := _other_container(want, value)) is not None:
            raise _mismatch(expected, value, path)
        if twin is not None:
            return self._twin(value, twin, {}, path)
        if _is_optax(value):
            raise _mismatch("a class that has a twin in treaty.schema.library.optax", value, path, _keep(type(value)))
        return _rebuild(value, lambda child, key, step: self.convert(child, _below(want, key), path + step))

    def _twin(self, value: Any, twin: type, arguments: Mapping[Any, Any], path: str) -> Any:
        fields = {
            one.name: self.convert(getattr(value, one.name), _fill(one.type, arguments), f"{path}.{one.name}")
            for one in attrs.fields(twin)
        }
        return twin(**fields)

    def _chain(self, value: Any, want: Any, cls: type, path: str) -> Any:
        names = _chain_fields(cls)
        if type(value) is not tuple or len(value) != len(names):
            raise _mismatch(f"a tuple of {len(names)}, for {cls.__name__}", value, path)
        hints, arguments = typing.get_type_hints(cls, include_extras=True), _arguments(want)
        members = {
            name: self.convert(member, _fill(hints[name], arguments), f"{path}[{index}]")
            for index, (name, member) in enumerate(zip(names, value, strict=True))
        }
        return cls(**members)


def _optax() -> ModuleType:
    try:
        return importlib.import_module("optax")
    except ModuleNotFoundError as error:
        if error.name != "optax":
            raise
        raise TreatyError(_NO_OPTAX) from None


def _chain_fields(cls: type) -> list[str]:
    """The fields of a Chain in the chain's order."""
    by_key = {options_of(one).key or one.name: one.name for one in attrs.fields(cls)} if attrs.has(cls) else {}
    keys = [str(index) for index in range(len(by_key))]
    if set(keys) != set(by_key):
        raise SchemaError(
            f"{cls.__qualname__}: expected the keys {', '.join(keys)} in a Chain of {len(keys)}, "
            f'got {", ".join(by_key)}; write x: EmptyState = field(key="0")'
        )
    return [by_key[key] for key in keys]


def _rebuild(value: Any, convert: Callable[[Any, Any, str], Any]) -> Any:
    """The value with its children converted, each given with its key and the step to it in a path.

    Where no child changes, this is the value itself, so that params are not rebuilt.
    """
    if type(value) in (dict, OrderedDict):  # by hand, as JAX would sort the keys
        made = {key: convert(child, key, f"[{key!r}]") for key, child in value.items()}
        return value if all(made[key] is child for key, child in value.items()) else type(value)(made)
    paths, structure = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda child: child is not value)
    if jax.tree_util.treedef_is_leaf(structure):
        return value
    children = [convert(child, getattr(path[0], "idx", None), jax.tree_util.keystr(path)) for path, child in paths]
    same = all(child is before for child, (_, before) in zip(children, paths, strict=True))
    return value if same else jax.tree_util.tree_unflatten(structure, children)


def _plain(want: Any, value: Any) -> Any:
    """The type without Annotated, and X for X | None where there is a value."""
    if typing.get_origin(want) is Annotated:
        return _plain(typing.get_args(want)[0], value)
    if typing.get_origin(want) in _UNIONS and value is not None:
        present = [one for one in typing.get_args(want) if one is not type(None)]
        return _plain(present[0], value) if len(present) == 1 else Any
    return want


def _arguments(want: Any) -> dict[Any, Any]:
    """What each type variable stands for in `AdamState[Params]`."""
    parameters = getattr(typing.get_origin(want), "__parameters__", ())
    return dict(zip(parameters, typing.get_args(want), strict=False))


def _fill(annotation: Any, arguments: Mapping[Any, Any]) -> Any:
    """The annotation with its type variables filled in; Any for those that nobody gave."""
    if isinstance(annotation, TypeVar):
        return arguments.get(annotation, Any)
    parameters = getattr(annotation, "__parameters__", ())
    if parameters and not isinstance(annotation, type):
        return annotation[tuple(arguments.get(one, Any) for one in parameters)]
    return annotation


def _below(want: Any, key: Any) -> Any:
    """The wanted type of the child at a key of a tuple, list or dict; Any in other nodes."""
    origin, args = typing.get_origin(want), typing.get_args(want)
    if typing.is_typeddict(want):
        return typing.get_type_hints(want, include_extras=True)[key]
    if origin is tuple and args[1:] != (...,):
        return args[key]
    return {list: args[:1], tuple: args[:1], dict: args[1:]}.get(origin, (Any,))[0]


def _other_container(want: Any, value: Any) -> str | None:
    """What was expected, where the value is another container than the wanted one; leaves are not looked at."""
    wanted, args = typing.get_origin(want) or want, typing.get_args(want)
    if typing.is_typeddict(wanted):
        keys = typing.get_type_hints(wanted)
        fits = isinstance(value, dict) and set(value) == set(keys)
        return None if fits else f"a dict with the keys {', '.join(keys)}"
    if wanted is tuple and want is not tuple and args[1:] != (...,):
        return None if type(value) is tuple and len(value) == len(args) else f"a tuple of {len(args)}"
    if wanted in (tuple, list, dict) or (
        isinstance(wanted, type) and (attrs.has(wanted) or hasattr(wanted, "_fields"))
    ):
        return None if isinstance(value, wanted) else f"a {wanted.__name__}"
    return None


def _is_optax(value: Any) -> bool:
    return str(type(value).__module__).partition(".")[0] == "optax"


def _keep(cls: type) -> str:
    fields = ", ".join(f"{name}=..." for name in getattr(cls, "_fields", ()))
    return f"; to keep optax's class, declare Annotated[{cls.__name__}, Fields({fields})] there and pass the whole type as cls"


def _mismatch(expected: str, value: Any, path: str, advice: str = "") -> TreatyError:
    cls = type(value)
    got = f"a tuple of {len(value)}" if cls is tuple else f"a {cls.__name__}"
    if cls is dict:
        got = f"a dict with the keys {', '.join(map(str, value))}"
    if _is_optax(value):
        got = f"optax's {cls.__name__}"
    return TreatyError(f"expected {expected}, got {got} at {path}{advice}")
