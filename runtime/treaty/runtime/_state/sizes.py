"""How many bytes an array takes."""

import math
from typing import Any

import jax
import numpy as np

from treaty.runtime._state.arrays import is_key


def estimate_array_nbytes(array: Any) -> int:
    """Bytes of an array on the host, from shape and dtype alone; int4 and its like take a byte an element."""
    if not hasattr(array, "dtype"):
        array = np.asarray(array)
        return int(array.size * jax.dtypes.canonicalize_dtype(array.dtype).itemsize)
    if is_key(array):
        array = jax.eval_shape(jax.random.key_data, array)
    size: int = math.prod(array.shape) * array.dtype.itemsize
    return size
