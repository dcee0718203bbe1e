"""Arrays in the one form in which files take their bytes."""

from typing import Any

import jax
import numpy as np

from treaty.runtime._errors import UnaddressableArrayError, UnwritableArrayError


def host_array(array: Any) -> "np.ndarray[Any, np.dtype[Any]]":
    """An array as files store it: on the host, in C order, in the machine's byte order."""
    if isinstance(array, jax.Array):
        if isinstance(array, jax.core.Tracer):
            raise UnwritableArrayError("expected arrays with contents, got traced ones; save outside of jit and grad")
        try:
            array = np.asarray(array)
        except RuntimeError:  # asked after the fact: the question takes as long as a small array's copy
            if array.is_fully_addressable:
                raise
            raise UnaddressableArrayError(
                f"expected an array whose shards are all on this host, got {array.dtype}{list(array.shape)} spread over "
                "several processes; save a directory instead, or gather it first"
            ) from None
    elif isinstance(array, np.ma.MaskedArray):
        raise UnwritableArrayError("expected an array without a mask, got a masked one; store its data and mask as two")
    if array.dtype.hasobject or issubclass(array.dtype.type, np.void):  # numpy's, with fields or without
        raise UnwritableArrayError(
            "Object and structured dtypes not supported for serialization of ndarrays: "
            f"expected numbers or text, got dtype {array.dtype}"
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
