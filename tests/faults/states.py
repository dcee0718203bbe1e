"""A state of a few leaves: two arrays in TensorStore, cut into chunks, small ones and values in MessagePack files."""

from typing import Any, Final

import numpy as np
from jaxtyping import Float32, Int32

from treaty.generator import load
from treaty.schema import field, state

# Of `directory._plan`: so a small state has every kind of file, and a save few system calls.
LAYOUT: Final = {"SMALL_BYTES": 128, "CHUNK_BYTES": 512}


@state
class Run:
    step: Int32[np.ndarray, ""]
    kernel: Float32[np.ndarray, "d_in d_out"]
    bias: Float32[np.ndarray, "d_out"]
    lr: float = field(default=1e-3)
    note: str = field(default="")


load(Run)


def run(seed: int, d_in: int = 16) -> Run:
    random = np.random.default_rng(seed)
    return Run(
        step=np.asarray(seed, np.int32),
        kernel=random.standard_normal((d_in, 16), np.float32),
        bias=random.standard_normal(16, np.float32),
        note=f"run {seed}",
    )


def later(step: int, d_in: int = 16) -> Run:
    """A state of a run in which one chunk of the kernel changes, and the others are those of every step."""
    one = run(step, d_in)
    one.kernel[1:] = run(0, d_in).kernel[1:]
    return one


def bits(one: Run) -> tuple[Any, ...]:
    arrays = [(array.dtype.name, array.shape, array.tobytes()) for array in map(np.asarray, _arrays(one))]
    return (*arrays, one.lr, one.note)


def _arrays(one: Run) -> tuple[Any, ...]:
    return one.step, one.kernel, one.bias
