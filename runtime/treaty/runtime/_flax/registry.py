"""Which functions serve a type: Flax's rules for containers, those registered here or with Flax, or generated code."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from jax.tree_util import Partial

from treaty.runtime._errors import StateKeyError
from treaty.runtime._flax.bridge import Functions, loaded_flax, share
from treaty.runtime._flax.paths import Names, entered
from treaty.runtime._state.registry import is_state_class

CONTAINERS = frozenset([dict, list, tuple, Partial])

_registered: dict[type, Functions] = {}


class Served(NamedTuple):
    """Registered functions, with all that Flax does around them."""

    write: Callable[[Any], Any]
    read: Callable[[Any, Any, Names], Any]


def register_serialization_state(
    ty: type, ty_to_state_dict: Any, ty_from_state_dict: Any, override: bool = False
) -> None:
    """Say how a type becomes a state dict, and how a copy of an instance is made from one. Flax is told too."""
    if is_serializable(ty) and not override:
        raise ValueError(f'a serialization handler for "{ty.__name__}" is already registered')
    functions = Functions(ty_to_state_dict, ty_from_state_dict)
    _registered[ty] = functions
    share(ty, functions, override=True)


def is_serializable(target: Any) -> bool:
    """Whether the type of a value, or the type given, has a state dict of its own; leaves and NamedTuples have none."""
    cls = target if isinstance(target, type) else type(target)
    return is_container(cls) or functions_of(cls) is not None or is_state_class(cls)


def is_container(cls: type) -> bool:
    """Whether Flax's rules for dict, list, tuple and Partial hold, as they do until someone overrides them."""
    return cls in CONTAINERS and cls not in _registered


def is_namedtuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def functions_of(cls: type) -> Served | None:
    """What was registered for a type, here or with Flax; the latest counts. State classes are not among these."""
    if cls not in _registered and (cls in CONTAINERS or is_state_class(cls)):
        return None
    flax = loaded_flax()
    if flax is not None and flax.is_serializable(cls):
        return Served(flax.to_state_dict, partial(_read_by_flax, flax))
    functions = _registered.get(cls)
    return functions and Served(partial(_write_here, functions), partial(_read_here, functions))


def has_own_code(cls: type) -> bool:
    """Whether generated code serves a type: of a state class, unless something was registered over it."""
    return is_state_class(cls) and functions_of(cls) is None


def registered_here(cls: type) -> Functions | None:
    return _registered.get(cls)


def _write_here(functions: Functions, target: Any) -> Any:
    state = functions.write(target)
    if isinstance(state, dict) and not all(isinstance(key, str) for key in state):
        raise StateKeyError("A state dict must only have string keys.")
    return state


def _read_here(functions: Functions, target: Any, state: Any, names: Names) -> Any:
    with entered(names):
        return functions.read(target, state)


def _read_by_flax(flax: Any, target: Any, state: Any, names: Names) -> Any:
    with entered(()):
        return flax.from_state_dict(target, state, name="/".join(names))
