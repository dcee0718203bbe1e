"""A migration by hand: from the TypedDict of the old version to that of the new one."""

import jax.numpy as jnp
import numpy as np
from schemas.model_treaty import BlockState, LinearState


def by_variable(old: LinearState) -> LinearState:
    kernel = np.asarray(old["kernel"], dtype=np.float32)
    reveal_type(kernel)  # ndarray[tuple[Any, ...], dtype[floating[_32Bit]]]
    bias = np.zeros(int(kernel.shape[1]), np.float32)
    reveal_type(bias)  # ndarray[tuple[int], dtype[floating[_32Bit]]]
    return {"kernel": kernel, "bias": bias}


def in_place(old: LinearState, width: int) -> LinearState:
    return {
        "kernel": old["kernel"].astype(np.float32),
        "bias": np.full((width,), 0.5, dtype=np.float32),
    }


def every_constructor(old: LinearState) -> list[LinearState]:
    bias = old["bias"]
    return [
        {"kernel": np.ones((2, 3), np.float32), "bias": bias},
        {"kernel": np.empty((2, 3), dtype=np.float32), "bias": bias},
        {"kernel": np.array([[1.0, 2.0]], np.float32), "bias": bias},
        {"kernel": np.zeros([2, 3], "float32"), "bias": bias},
        {"kernel": np.asarray(old["kernel"], np.float32).T, "bias": bias},
        {"kernel": np.float32(2) * np.ones((2, 3), np.float32), "bias": bias},
        {"kernel": jnp.zeros((2, 3)), "bias": jnp.asarray(bias)},
        {"kernel": np.zeros((2, 3), np.float32).copy(), "bias": bias},
        {"kernel": np.stack([np.zeros(3, np.float32)]), "bias": np.concatenate([np.zeros(3, np.float32)])},
    ]


def dtype_object(old: LinearState) -> LinearState:
    bias = np.zeros(3, np.dtype(np.float32))
    # To ty np.dtype(np.float32) is a dtype of float64.
    return {"kernel": old["kernel"], "bias": bias}  # ty: ignore[invalid-explicit-return, invalid-argument-type]


def renamed(old: dict[str, LinearState]) -> BlockState:
    return {"up": old["wide"], "down": {**old["narrow"], "bias": old["wide"]["bias"]}}
