"""How many bytes there are for arrays, and how to cut an array into pieces of so many."""

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import jax
import numpy as np

from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._state.sizes import estimate_array_nbytes

_ArrayT = TypeVar("_ArrayT", jax.Array, "np.ndarray[Any, np.dtype[Any]]")
_LEAST: Final = 100 * 2**20  # an estimate below this is taken for a wrong one


def estimate_available_memory() -> int:
    """Half of the free host memory or 40% of the first local device's, whichever is less, and never below 100 MiB."""
    return _estimate(_free_host_bytes(), _device_stats())


def chunk_tensor_by_memory(tensor: _ArrayT, memory_limit: int) -> list[_ArrayT]:
    """Pieces of at most `memory_limit` bytes, in order: joined along axis 0, or flattened and joined, they are `tensor`.

    Only where a single row is over the limit are later axes cut too, so that flattening is needed.
    """
    nbytes = estimate_array_nbytes(tensor)
    if nbytes <= memory_limit:
        return [tensor]
    itemsize = max(1, nbytes // max(1, tensor.size))
    if memory_limit < itemsize:
        raise InvalidArgumentError(
            f"expected a memory limit of {itemsize} bytes or more, one {tensor.dtype}, got {memory_limit}"
        )
    return list(_runs(tensor, 0, memory_limit // itemsize))


def _runs(tensor: _ArrayT, axis: int, room: int) -> Iterator[_ArrayT]:
    """Runs of at most `room` elements, contiguous in C order, where the axes before `axis` have length 1."""
    before: tuple[slice, ...] = (slice(None),) * axis
    row = math.prod(tensor.shape[axis + 1 :])
    if row > room:
        for i in range(tensor.shape[axis]):
            yield from _runs(tensor[(*before, slice(i, i + 1))], axis + 1, room)
        return
    start = 0
    for length in _lengths(tensor.shape[axis], room // row):
        yield tensor[(*before, slice(start, start + length))]
        start += length


def _lengths(rows: int, most: int) -> list[int]:
    """The fewest lengths of at most `most`; the odd rows go last, as eformer has them, where they fit."""
    count = -(-rows // most)
    base, odd = divmod(rows, count)
    if base + odd <= most:
        return [base] * (count - 1) + [base + odd]
    return [base] * (count - odd) + [base + 1] * odd


def _estimate(host: int, device: Mapping[str, int]) -> int:
    limits = [host // 2]
    if "bytes_limit" in device:
        limits.append(int(device["bytes_limit"] * 0.4))
    return max(_LEAST, min(limits))


def _free_host_bytes() -> int:
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in os.sysconf_names else "SC_PHYS_PAGES"
    return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")


def _device_stats() -> Mapping[str, int]:
    try:
        stats: Mapping[str, int] | None = jax.local_devices()[0].memory_stats()
    except (jax.errors.JaxRuntimeError, NotImplementedError):  # not every platform keeps count
        stats = None
    return stats or {}
