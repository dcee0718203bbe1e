"""The functions of generated modules: each state dict has its TypedDict, with rank and dtype at the leaves."""

import numpy as np
from jax import Array
from schemas.model import Linear, TrainState
from schemas.model_treaty import (
    LinearState,
    TrainStateState,
    linear_abstract,
    linear_from_state_dict,
    linear_replace,
    linear_to_state_dict,
    train_state_from_state_dict,
    train_state_replace,
    train_state_to_state_dict,
)
from schemas.optim import Run
from schemas.optim_treaty import adam_linear_from_state_dict, adam_linear_replace, run_replace, run_to_state_dict


def written(linear: Linear, train: TrainState, run: Run) -> None:
    reveal_type(linear_to_state_dict(linear))  # LinearState
    reveal_type(linear_to_state_dict(linear)["kernel"])  # Array | ndarray[tuple[int, int], dtype[floating[_32Bit]]]
    reveal_type(train_state_to_state_dict(train)["step"])  # Array | ndarray[tuple[()], dtype[signedinteger[_32Bit]]]
    reveal_type(train_state_to_state_dict(train)["embed"])  # Array | ndarray[tuple[int, int], dtype[bfloat16]]
    reveal_type(train_state_to_state_dict(train)["blocks"]["0"]["up"])  # LinearState
    reveal_type(train_state_to_state_dict(train)["rng"])  # KeyState
    reveal_type(train_state_to_state_dict(train)["lr"])  # float
    reveal_type(run_to_state_dict(run)["opt"])  # AdamLinearState
    reveal_type(run_to_state_dict(run)["best"])  # AdamLinearState | None


def read(linear: LinearState, train: TrainStateState, run: Run) -> None:
    reveal_type(linear_from_state_dict(linear))  # Linear
    reveal_type(linear_from_state_dict(linear, d_in=4, d_out=8))  # Linear
    reveal_type(train_state_from_state_dict(train))  # TrainState
    reveal_type(adam_linear_from_state_dict(run_to_state_dict(run)["opt"]))  # Adam[Linear]
    reveal_type(linear_abstract(4, 8))  # Linear


def updated(x: Array, linear: Linear, train: TrainState, run: Run) -> None:
    reveal_type(linear_replace(linear, kernel=x))  # Linear
    reveal_type(train_state_replace(train, step=train.step + 1, blocks=(), lr=1e-4))  # TrainState
    reveal_type(adam_linear_replace(run.opt, mu=linear))  # Adam[Linear]
    reveal_type(run_replace(run, best=None))  # Run


def by_hand() -> LinearState:
    return {"kernel": np.zeros((4, 8), np.float32), "bias": np.zeros(8, np.float32)}
