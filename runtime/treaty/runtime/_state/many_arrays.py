"""Many small arrays on their way to the default device.

`jax.device_put` takes as long for an array of 4 elements as for one of 4,000, in Python. Arguments of a compiled function are taken
over in C++, in a sixth of that. So arrays of one shape pass through a function that gives back what it is given, a few at a
time. To compile it for a shape costs as much as to put a few hundred arrays, so there must be more of them.
`python -m benchmarks fast_paths` measures it.
"""

from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

FEWEST: Final = 512  # of one shape
_TOGETHER: Final = 16
_LARGEST: Final = 2**16  # bytes: of more, the copy is what takes time


def put_many(arrays: "Sequence[np.ndarray[Any, np.dtype[Any]]]") -> list[jax.Array]:
    """As `jax.device_put(arrays)`."""
    groups: dict[Any, list[int]] = {}
    for number, array in enumerate(arrays):
        if array.nbytes <= _LARGEST:
            groups.setdefault((array.shape, array.dtype), []).append(number)
    large = [group for group in groups.values() if len(group) >= FEWEST]
    if not large or not _can_pass():
        return list(jax.device_put(list(arrays)))
    found: list[Any] = [None] * len(arrays)
    for group in large:
        for number, placed in zip(group, _passed([arrays[i] for i in group]), strict=True):
            found[number] = placed
    rest = [number for number, placed in enumerate(found) if placed is None]
    for number, placed in zip(rest, jax.device_put([arrays[i] for i in rest]), strict=True):
        found[number] = placed
    return found


def _can_pass() -> bool:
    """Measured on CPUs only. What users set to find their faults must not meet functions that they did not write."""
    config: Any = jax.config
    debugs = config.jax_disable_jit or config.jax_debug_nans or config.jax_debug_infs
    guards = (
        config.jax_transfer_guard_host_to_device,
        config.jax_transfer_guard,
    )  # to be put is allowed, to be passed is not
    return not debugs and jax.default_backend() == "cpu" and all(guard in (None, "allow") for guard in guards)


def _passed(arrays: "list[np.ndarray[Any, np.dtype[Any]]]") -> list[jax.Array]:
    """Arrays of one shape; the last ones again, so that the function is compiled once."""
    count = len(arrays)
    arrays = arrays + arrays[-1:] * (-count % _TOGETHER)
    passed = [one for start in range(0, len(arrays), _TOGETHER) for one in _same(arrays[start : start + _TOGETHER])]
    return passed[:count]


@jax.jit
def _same(arrays: list[jax.Array]) -> list[jax.Array]:
    return arrays
