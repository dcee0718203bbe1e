"""Reading arrays, whole and in shards, where the caller brings no manager."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import tensorstore as ts
from jax.sharding import Sharding

from treaty.runtime._storage.claimed_sizes import fits_in_memory
from treaty.runtime._storage.memory import aligned

Region = tuple[tuple[int | None, int | None], ...]


class ShardReader:
    """The reading methods of JAX's manager, which reads a replicated region once for each device, and on a failure
    leaves reads behind that complain later of a closed event loop."""

    def deserialize(
        self, shardings: Sequence[Sharding], tensorstore_specs: Sequence[dict[str, Any]]
    ) -> list[jax.Array]:
        opening = [ts.open(spec, open=True, read=True) for spec in tensorstore_specs]
        reading = [_Shards(future.result(), sharding) for future, sharding in zip(opening, shardings, strict=True)]
        return [shards.array() for shards in reading]

    def wait_until_finished(self) -> None:
        """Nothing is ever under way."""


class PendingArray:
    """A read into memory of ours: where TensorStore cannot get memory of its own, it ends the process."""

    def __init__(self, store: ts.TensorStore) -> None:
        dtype = store.dtype.numpy_dtype
        if not fits_in_memory(store.size * dtype.itemsize):
            raise MemoryError(f"{dtype}{list(store.shape)}")
        self._out = aligned(store.shape, dtype)
        self._write = ts.array(self._out).write(store[ts.d[:].translate_to[0]])

    def result(self) -> np.ndarray[Any, Any]:
        self._write.result()
        return self._out


class _Shards:
    """The regions of one array that this process needs, on their way."""

    def __init__(self, store: ts.TensorStore, sharding: Sharding) -> None:
        self._shape, self._sharding = store.shape, sharding
        self._reads: dict[Region, PendingArray] = {}
        for index in sharding.addressable_devices_indices_map(store.shape).values():
            if index is not None and _region(index) not in self._reads:
                self._reads[_region(index)] = PendingArray(store[index])

    def array(self) -> jax.Array:
        def shard(index: tuple[slice, ...] | None) -> np.ndarray[Any, Any]:
            return self._reads[_region(index or ())].result()

        return jax.make_array_from_callback(self._shape, self._sharding, shard)


def _region(index: tuple[slice, ...]) -> Region:
    return tuple((part.start, part.stop) for part in index)  # slices are hashable only from Python 3.12 on
