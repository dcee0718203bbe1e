"""The assertions that Flax only promises: a restored array has the shape, and the dtype, of the one in the target."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax.numpy as jnp
import numpy as np

from treaty.runtime._errors import Mismatch
from treaty.runtime._explain import describe
from treaty.runtime._flax.paths import Names, error_path

_strict: ContextVar[bool] = ContextVar("treaty_strict", default=True)


@contextmanager
def strict(enabled: bool) -> Iterator[None]:
    """`with strict(False):` restores as Flax does, whatever the shapes and dtypes. State classes are checked all the same."""
    token = _strict.set(enabled)
    try:
        yield
    finally:
        _strict.reset(token)


def is_strict() -> bool:
    return _strict.get()


def fits(target: Any, value: Any, dtypes: bool) -> bool:
    """Whether a restored leaf may stand for the target's. A target that is no array promises nothing."""
    try:
        shape, dtype = target.shape, target.dtype
    except AttributeError:
        return True
    try:
        return bool(value.shape == shape and (not dtypes or value.dtype == dtype)) or isinstance(target, type)
    except AttributeError:
        return isinstance(target, type) or (shape == () and _is_number(value, dtype, dtypes))


def mismatches(target: Any, value: Any, dtypes: bool, names: Names) -> Iterator[Mismatch]:
    """The differences between two state dicts where both have something."""
    if isinstance(target, dict) and isinstance(value, dict):
        for key in target:
            if key in value:
                yield from mismatches(target[key], value[key], dtypes, (*names, str(key)))
    elif isinstance(target, (list, tuple)) and isinstance(value, (list, tuple)):
        for index, (one, other) in enumerate(zip(target, value, strict=False)):
            yield from mismatches(one, other, dtypes, (*names, str(index)))
    elif not fits(target, value, dtypes):
        yield mismatch(target, value, names)


def mismatch(target: Any, value: Any, names: Names) -> Mismatch:
    return Mismatch(describe(target), describe(value), error_path(names))


def _is_number(value: object, dtype: Any, dtypes: bool) -> bool:
    """Python's numbers have no dtype: the step of a TrainState is an int at first and an int32 array after a jitted one."""
    kind = _KINDS.get(type(value))
    return kind is not None and (not dtypes or jnp.issubdtype(dtype, kind))


_KINDS: dict[type, Any] = {bool: np.bool_, int: np.integer, float: np.floating, complex: np.complexfloating}
