"""One process's values on every process."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, cast

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Sharding

from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._state.arrays import is_key, write_key
from treaty.runtime._state.sizes import estimate_array_nbytes


def broadcast_tensor(tensor: Any, memory_limit_bytes: int, target_sharding: Sharding | None = None) -> jax.Array:
    """Process 0's tensor on every process, bit for bit, at most so many bytes at a time.

    Every process calls it; on the others only the shape and dtype of `tensor` count, so a ShapeDtypeStruct will do.
    """
    if memory_limit_bytes < 1:
        raise InvalidArgumentError(f"expected a memory limit of 1 byte or more, got {memory_limit_bytes}")
    if is_key(tensor):
        key = write_key(tensor)
        words = broadcast_tensor(key["data"], memory_limit_bytes, target_sharding)
        return cast(jax.Array, jax.random.wrap_key_data(words, impl=key["impl"]))
    if jax.dtypes.canonicalize_dtype(tensor.dtype) != tensor.dtype:
        raise InvalidArgumentError(
            f"expected jax_enable_x64 for {tensor.dtype}, got it off; set it, or cast the tensor"
        )
    host = _received(tensor, memory_limit_bytes) if jax.process_count() > 1 else np.asarray(tensor)
    if target_sharding is None:
        return cast(jax.Array, jax.device_put(host))
    return jax.make_array_from_callback(host.shape, target_sharding, lambda index: host[index])


def flatten_for_broadcast(state: Mapping[Any, Any]) -> dict[Any, Any]:
    """Nested dicts as one, keys joined with dots and empty dicts left out; a dict with tuple keys counts as flat."""
    if isinstance(state, dict) and any(isinstance(key, tuple) for key in state):
        return state
    flat: dict[Any, Any] = {}
    for key, value in _leaves(state, ""):
        if key in flat:
            raise InvalidArgumentError(f"expected keys that differ when joined with dots, got {key!r} twice")
        flat[key] = value
    return flat


def _received(tensor: Any, limit: int) -> "np.ndarray[Any, np.dtype[Any]]":
    _agree(f"{tensor.shape} {tensor.dtype} {limit}")
    source = jax.process_index() == 0
    host = np.ascontiguousarray(tensor) if source else np.empty(tensor.shape, tensor.dtype)
    # As bytes, because JAX broadcasts by summing with zeros: that turns -0.0 into 0.0 and knows not every dtype.
    flat = host.reshape(-1).view(np.uint8)
    for start in range(0, estimate_array_nbytes(tensor), limit):
        piece = multihost_utils.broadcast_one_to_all(flat[start : start + limit])
        if not source:
            flat[start : start + limit] = piece
    return host.reshape(tensor.shape)


def _agree(call: str) -> None:
    """Raise on every process where one of them differs: it would take part in other collectives, and all would hang."""
    mine = np.frombuffer(hashlib.sha256(call.encode()).digest(), np.uint32)
    if (multihost_utils.process_allgather(mine) != mine).any():
        raise InvalidArgumentError(f"expected the same shape, dtype and limit on every process, got {call} on this one")


def _leaves(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(node, Mapping):
        yield path, node
        return
    for key, value in node.items():
        yield from _leaves(value, f"{path}.{key}" if path else str(key))
