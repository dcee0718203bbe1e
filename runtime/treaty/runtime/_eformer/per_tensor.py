"""Functions given by tensor name: gathering a flat state, and reading one tensor of a checkpoint."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from treaty.runtime._eformer.broadcast import flatten_for_broadcast
from treaty.runtime._eformer.dtype_names import AnyDType, dtype_named
from treaty.runtime._errors import MissingFunctionError

_T = TypeVar("_T")
_CAST: Final = {"bfloat16", "float16", "float32", "float64"}  # float8 is how it was quantised: it stays


class TensorReader(Protocol):
    """What reads tensors by name, such as an open safetensors file."""

    def get_tensor(self, name: str, /) -> Any: ...


def apply_gather_functions(
    state: Mapping[Any, Any],
    gather_fns: Mapping[Any, Any] | bool,
    mismatch_allowed: bool,
    verbose: bool,
) -> dict[Any, Any]:
    """Each value through the function of its name; True brings all of them to the host, False leaves them."""
    if isinstance(gather_fns, bool):
        return {key: _gathered(value) if gather_fns else value for key, value in state.items()}
    functions = flatten_for_broadcast(gather_fns)
    processed: dict[Any, Any] = {}
    for key, value in _shown(state.items(), len(state)) if verbose else state.items():
        function = functions.get(key)
        if function is None and not mismatch_allowed:
            raise MissingFunctionError(f"expected a gather function, got none at {key!r}; pass one or allow mismatches")
        processed[key] = value if function is None else function(value)
    return processed


def read_process_array(
    key: str,
    shard_fns: Mapping[str, Callable[[Any], Any] | None] | None,
    mismatch_allowed: bool,
    manager: TensorReader,
    callback: Callable[[Any, str], Any] | None = None,
    dtype: AnyDType | None = None,
) -> tuple[str, Any, int]:
    """One tensor, sharded, passed through `callback` and cast from 16, 32 or 64-bit floats; 1 if no function was there."""
    tensor = manager.get_tensor(key)
    function = shard_fns.get(key) if shard_fns else None
    mismatch = 1 if shard_fns and function is None else 0
    if mismatch and not mismatch_allowed:
        raise MissingFunctionError(f"expected a shard function, got none at {key!r}; pass one or allow mismatches")
    if function is not None:
        tensor = function(tensor)
    if callback is not None:
        tensor = callback(tensor, key)
    if dtype and tensor.dtype.name in _CAST:
        tensor = tensor.astype(dtype_named(dtype))
    return key, tensor, mismatch


def _gathered(value: Any) -> Any:
    if isinstance(value, jax.Array) and not (value.is_fully_addressable or value.is_fully_replicated):
        return np.asarray(multihost_utils.process_allgather(value, tiled=True))
    return jax.device_get(value)


def _shown(items: Iterable[_T], total: int) -> Iterable[_T]:
    from rich.console import Console
    from rich.progress import track

    return track(items, "Gathering state", total=total, console=Console(stderr=True))
