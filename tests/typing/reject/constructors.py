"""Mistakes in building, reading and changing state objects."""

import numpy as np
from jax import Array
from schemas.model import Block, Linear, TrainState
from schemas.model_treaty import linear_replace, train_state_replace
from schemas.optim import Adam


def wrong_type_of_array(x: Array) -> Linear:
    # E: Argument "kernel" to "Linear" has incompatible type "ndarray[tuple[int, int], dtype[float64]]"; expected "Array"  [arg-type]
    return Linear(kernel=np.zeros((2, 3)), bias=x)


def wrong_type_of_child(x: Array, linear: Linear) -> Block:
    # E: Argument "down" to "Block" has incompatible type "Array"; expected "Linear"  [arg-type]
    return Block(up=linear, down=x)


def missing_keyword(x: Array) -> Linear:
    # E: Missing named argument "bias" for "Linear"  [call-arg]
    return Linear(kernel=x)


def unknown_keyword(x: Array) -> Linear:
    # E: Unexpected keyword argument "scale" for "Linear"  [call-arg]
    return Linear(kernel=x, bias=x, scale=x)


def positional(x: Array) -> Linear:
    # E: Too many positional arguments for "Linear"  [call-arg]
    return Linear(x, x)


def static_field_of_another_type(x: Array) -> TrainState:
    # E: Argument "note" to "TrainState" has incompatible type "int"; expected "str"  [arg-type]
    return TrainState(step=x, embed=x, blocks=(), rng=x, note=3)


def list_for_a_tuple(x: Array, block: Block) -> TrainState:
    # E: Argument "blocks" to "TrainState" has incompatible type "list[Block]"; expected "tuple[Block, ...]"  [arg-type]
    return TrainState(step=x, embed=x, blocks=[block], rng=x, note="")


def frozen(x: Array, linear: Linear) -> None:
    # E: Property "bias" defined in "Linear" is read-only  [misc]
    linear.bias = x


def unknown_attribute(linear: Linear) -> None:
    # E: "Linear" has no attribute "weight"  [attr-defined]
    print(linear.weight)


def another_argument(x: Array, block: Block) -> Adam[Linear]:
    adam = Adam(count=x, mu=block, nu=block)
    # E: Incompatible return value type (got "Adam[Block]", expected "Adam[Linear]")  [return-value]
    return adam


def replaced_by_another_type(train: TrainState) -> TrainState:
    # E: Argument "step" to "train_state_replace" has incompatible type "str"; expected "Array"  [arg-type]
    return train_state_replace(train, step="1")


def replaced_by_another_class(x: Array, train: TrainState) -> TrainState:
    # E: Argument "blocks" to "train_state_replace" has incompatible type "tuple[Array]"; expected "tuple[Block, ...]"  [arg-type]
    return train_state_replace(train, blocks=(x,))


def replaced_what_is_not_there(x: Array, linear: Linear) -> Linear:
    # E: Unexpected keyword argument "scale" for "linear_replace"  [call-arg]
    return linear_replace(linear, scale=x)  # not ty


def replaced_in_another_class(x: Array, train: TrainState) -> Linear:
    # E: Argument 1 to "linear_replace" has incompatible type "TrainState"; expected "Linear"  [arg-type]
    return linear_replace(train, kernel=x)
