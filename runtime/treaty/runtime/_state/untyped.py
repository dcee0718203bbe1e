"""Subtrees declared Any or PyTree: stored as Flax would store them, and not checked."""

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, TypeAlias

import jax
import numpy as np

from treaty.runtime._state import alike
from treaty.runtime._state.arrays import Misfit, impl_of, is_key, keep_on_host, read_key, write_key
from treaty.runtime._state.registry import codec_of_instance
from treaty.schema import TreatyError
from treaty.schema._declare import state_options

_leaf_types: set[type] = {np.ndarray, bool, int, float, str, type(None)}
Restore: TypeAlias = Callable[[Any, Mapping[str, Any]], Any]  # an instance like the template, from a state dict


def write_untyped(value: Any) -> Any:
    """Containers and PRNG keys in state-dict form; other leaves as they are."""
    if type(value) in _leaf_types:
        return value
    if isinstance(value, dict):
        state = {str(key): write_untyped(one) for key, one in value.items()}
        if len(state) != len(value):
            raise TreatyError(f"expected dict keys with different string forms, got {sorted(map(repr, value))[:8]}")
        return state
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: write_untyped(getattr(value, name)) for name in value._fields}
    if isinstance(value, (list, tuple)):
        return {str(index): write_untyped(one) for index, one in enumerate(value)}
    if state_options(type(value)) is not None:
        return codec_of_instance(value).write(value)
    if _is_key(value):
        return write_key(value)
    if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
        _leaf_types.add(type(value))  # keys are of a type of their own
    return value


def _is_key(value: Any) -> bool:
    """Also of values of other libraries, whose dtypes JAX does not know."""
    return isinstance(value, (jax.Array, jax.ShapeDtypeStruct)) and is_key(value)


def read_untyped(state: Any) -> Any:
    """Without a template the state-dict form is all that is known."""
    return alike.spelled(state)


def like_template(template: Any, state: Any, restore: Restore) -> Any:
    """The subtree in the template's containers and state classes; where the two differ in structure, the state as it is."""
    if not isinstance(state, Mapping):
        return state
    if _is_key(template):
        return _key_like(template, state)
    if state_options(type(template)) is not None:
        return restore(template, state)
    if isinstance(template, dict) and {str(key) for key in template} == set(state):
        filled = copy(template)  # an OrderedDict stays one
        filled.update({key: like_template(one, state[str(key)], restore) for key, one in template.items()})
        return filled
    if isinstance(template, tuple) and hasattr(template, "_fields") and set(template._fields) == set(state):
        parts = {name: like_template(getattr(template, name), state[name], restore) for name in state}
        return type(template)(**parts)
    if isinstance(template, (list, tuple)) and {str(i) for i in range(len(template))} == set(state):
        return type(template)([like_template(one, state[str(i)], restore) for i, one in enumerate(template)])
    return state


def _key_like(template: Any, state: Any) -> Any:
    try:
        return read_key(state, keep_on_host, template.shape, impl_of(template))
    except (Misfit, LookupError):
        return state
