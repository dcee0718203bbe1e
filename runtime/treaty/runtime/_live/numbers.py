"""Python numbers and arrays of no axes, which stand for each other."""

from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from treaty.runtime._live.forms import ABSENT, Absent
from treaty.runtime._state.arrays import is_array, refuse_narrowing, transfer

NUMBERS: Final = (bool, int, float, complex)


def as_array(value: Any, dtype: Any) -> Any:
    """A Python number as a host array; ABSENT where the dtype has no room for it, or is of another kind.

    As in JAX, a float takes the nearest value of its dtype.
    """
    kinds = {
        bool: (jnp.bool_,),
        int: (jnp.integer, jnp.inexact),
        float: (jnp.inexact,),
        complex: (jnp.complexfloating,),
    }
    if not isinstance(dtype, np.dtype) or not any(jnp.issubdtype(dtype, kind) for kind in kinds[type(value)]):
        return ABSENT
    try:
        with np.errstate(over="ignore"):
            made = np.array(value, dtype)
    except OverflowError:  # beyond the dtype, or beyond all floats
        return ABSENT
    back = int(made) if jnp.issubdtype(dtype, jnp.integer) else complex(made)
    is_right = back == value if type(value) is int else np.isfinite(back) or not np.isfinite(value)
    return made if is_right else ABSENT


def in_form_of(value: Any, other: Any) -> Any:
    """A value in the form that the other has: a number, a numpy array or a jax array; ABSENT where it cannot have it."""
    if type(other) in NUMBERS:
        return _number(value, type(other))
    if not is_array(other):
        return value if type(value) is type(other) else ABSENT
    if type(value) in NUMBERS and other.shape == ():
        value = as_array(value, other.dtype)
    if isinstance(value, Absent) or not is_array(value) or value.shape != other.shape or value.dtype != other.dtype:
        return ABSENT
    is_on_host = isinstance(value, (np.ndarray, np.generic))
    if isinstance(other, jax.Array) and is_on_host:
        return _placed(value, other)
    if isinstance(other, (np.ndarray, np.generic)) and not _is_abstract(value):
        return np.asarray(value)[()] if isinstance(other, np.generic) else np.asarray(value)
    return value


def _placed(value: Any, other: jax.Array) -> jax.Array:
    """A host array where the other is, if somebody chose that place."""
    if isinstance(other, jax.core.Tracer) or not other.committed:
        return transfer([value])[0]
    refuse_narrowing(value.dtype)
    placed: jax.Array = jax.device_put(value, other.sharding)
    return placed


def _number(value: Any, kind: type) -> Any:
    if type(value) is kind:
        return value
    if not is_array(value) or value.shape != () or not isinstance(value.dtype, np.dtype):
        return ABSENT
    if _is_abstract(value):
        return value
    found = value.item()
    return found if type(found) is kind else ABSENT


def _is_abstract(value: object) -> bool:
    return isinstance(value, (jax.ShapeDtypeStruct, jax.core.Tracer))
