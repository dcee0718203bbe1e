"""How many bytes an array takes."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def estimate_array_nbytes(array: Any) -> int:
    """Bytes of an array on the host, from shape and dtype alone; int4 and its like take a byte an element."""
    if not hasattr(array, "dtype"):
        array = np.asarray(array)
        return int(array.size * jax.dtypes.canonicalize_dtype(array.dtype).itemsize)
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.eval_shape(jax.random.key_data, array)
    size: int = math.prod(array.shape) * array.dtype.itemsize
    return size
