"""The assertions that Flax only promises: a restored array has the shape, and the dtype, of the one in the target."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax.numpy as jnp
import numpy as np

from treaty.runtime._errors import Mismatch
from treaty.runtime._flax.paths import Names, error_path
from treaty.runtime._state.explain import describe

_strict: ContextVar[bool] = ContextVar("treaty_strict", default=True)


@contextmanager
def strict(enabled: bool) -> Iterator[None]:
    """`with strict(False):` restores as Flax does, whatever the shapes and dtypes. State classes are checked all the same."""
    outer = _strict.get()
    try:
        _strict.set(enabled)  # inside `try`: a Ctrl-C right after it must not leave it set
        yield
    finally:
        _strict.set(outer)


def is_strict() -> bool:
    return _strict.get()


def fits(target: Any, value: Any, dtypes: bool) -> bool:
    """Whether a restored leaf fits the target's. Everything fits a target that is not an array."""
    try:
        shape, dtype = target.shape, target.dtype
    except AttributeError:
        return True
    try:
        if value.shape == shape and (not dtypes or value.dtype == dtype or value.dtype == _native(dtype)):
            return True
    except AttributeError:
        if shape == () and _is_number(value, dtype, dtypes):
            return True
    return isinstance(target, type)  # the class np.float32 itself has a shape and a dtype, and is not an array


def agree(target: Any, state: Any, dtypes: bool) -> bool:
    """Whether a state dict has all that the target's has, and every leaf fits."""
    if type(target) is not dict:
        return fits(target, state, dtypes)
    return type(state) is dict and all(key in state and agree(target[key], state[key], dtypes) for key in target)


def compare(target: Any, state: Any, dtypes: bool, names: Names) -> list[Mismatch]:
    """A mismatch for each leaf that both state dicts have and that does not fit."""
    if isinstance(target, dict) and isinstance(state, dict):
        pairs = {str(key): (one, state[key]) for key, one in target.items() if key in state}
    elif isinstance(target, (list, tuple)) and isinstance(state, (list, tuple)):
        pairs = {str(index): both for index, both in enumerate(zip(target, state, strict=False))}
    else:
        return [] if fits(target, state, dtypes) else [mismatch(target, state, names)]
    return [one for key, both in pairs.items() for one in compare(*both, dtypes, (*names, key))]


def mismatch(target: Any, value: Any, names: Names) -> Mismatch:
    return Mismatch(describe(target), describe(value), error_path(names))


def _native(dtype: Any) -> Any:
    """The dtype that an array of swapped bytes is stored in."""
    return dtype.newbyteorder("=") if isinstance(dtype, np.dtype) else dtype


def _is_number(value: object, dtype: Any, dtypes: bool) -> bool:
    """Python's numbers have no dtype: the step of a TrainState is an int at first, and an int32 array after a jitted step."""
    kind = _KINDS.get(type(value))
    return kind is not None and (not dtypes or jnp.issubdtype(dtype, kind))


_KINDS: dict[type, Any] = {bool: np.bool_, int: np.integer, float: np.floating, complex: np.complexfloating}
