"""A small training state whose every number follows from its step, so that a mixture of two steps shows."""

from functools import cache

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float32, Int32

from treaty.generator import load
from treaty.schema import state

BLOCKS = 3
SHAPE = (256, 1024)  # a mebibyte: a directory stores it in a file of its own


@state
class Block:
    kernel: Float32[Array, "rows columns"]
    bias: Float32[Array, "columns"]


@state
class Training:
    step: Int32[Array, ""]
    blocks: tuple[Block, ...]
    seen: Float32[np.ndarray, "n"]
    rate: float


@state
class Tuned:
    """Of a run that trains a part only: what is frozen is the same files in every step."""

    frozen: Float32[Array, "size"]
    training: Training


load(Training)
load(Tuned)


class Mixture(AssertionError):
    """What was read is no state that was ever saved."""


def at_step(step: int) -> Training:
    kernels = [np.full(SHAPE, step + index / 4, np.float32) for index in range(BLOCKS)]
    blocks = tuple(
        Block(kernel=jnp.asarray(kernel), bias=jnp.full(SHAPE[1], step - index / 4, jnp.float32))
        for index, kernel in enumerate(kernels)
    )
    return Training(step=jnp.int32(step), blocks=blocks, seen=np.full(64, step, np.float32), rate=step / 8)


@cache
def base() -> Array:
    """The very array that was saved before is not looked at again; that of another process is."""
    return jnp.full(SHAPE[0] * SHAPE[1], 0.5, jnp.float32)


def training_of(found: Tuned) -> Training:
    if not np.array_equal(found.frozen, base()):
        raise Mixture("expected what is frozen as it was, got something else")
    return found.training


def step_of(found: Training) -> int:
    """The step that a state is of; every one of its numbers must say the same."""
    step = int(found.step)
    wrong = [] if found.rate == step / 8 else [f"rate {found.rate}"]
    wrong += [] if np.all(found.seen == step) else [f"seen {sorted(set(map(float, found.seen)))}"]
    for index, block in enumerate(found.blocks):
        for name, array, expected in (
            ("kernel", np.asarray(block.kernel), step + index / 4),
            ("bias", np.asarray(block.bias), step - index / 4),
        ):
            if not np.all(array == expected):
                wrong.append(f"blocks[{index}].{name} {sorted(set(map(float, np.unique(array))))[:4]}")
    if wrong or len(found.blocks) != BLOCKS:
        raise Mixture(f"expected step {step} throughout, got {', '.join(wrong) or len(found.blocks)}")
    return step
