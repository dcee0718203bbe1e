"""Our module with two functions that Flax keeps private and its own tests call. Nothing else does."""

from typing import Any

import jax
import msgpack as _msgpack
import numpy as np

from treaty.runtime import serialization
from treaty.runtime.formats import msgpack


def _msgpack_ext_pack(x: Any) -> Any:
    """The MessagePack extension for an array or a complex number; any other value as it is."""
    if isinstance(x, (np.ndarray, np.generic, jax.Array, complex)):
        return _msgpack.unpackb(msgpack.pack([x]))[0]  # in a list nothing is split into parts
    return x


def _chunk_array_leaves_in_place(d: Any) -> Any:
    """Replace the numpy arrays of a dict that are over MAX_CHUNK_SIZE by their stored form; of a lone array that form is returned."""
    if isinstance(d, np.ndarray):
        limit = serialization.MAX_CHUNK_SIZE
        return d if d.nbytes <= limit else _chunked(d, limit)
    if isinstance(d, dict):
        d.update({key: _chunk_array_leaves_in_place(value) for key, value in d.items()})
    return d


def _chunked(array: "np.ndarray[Any, np.dtype[Any]]", limit: int) -> dict[str, Any]:
    flat, size = array.reshape(-1), max(1, limit // array.itemsize)
    return {
        "__msgpack_chunked_array__": True,
        "shape": {str(axis): length for axis, length in enumerate(array.shape)},
        "chunks": {str(i): flat[i * size : (i + 1) * size] for i in range(-(-flat.size // size))},
    }


setattr(serialization, "_msgpack_ext_pack", _msgpack_ext_pack)  # noqa: B010 - mypy knows no such attributes
setattr(serialization, "_chunk_array_leaves_in_place", _chunk_array_leaves_in_place)  # noqa: B010
