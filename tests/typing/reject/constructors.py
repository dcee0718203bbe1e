"""Mistakes in building, reading and changing state objects."""

import attrs
import numpy as np
from jax import Array

from schemas.model import Block, Linear, TrainState
from schemas.optim import Adam


def wrong_type_of_array(x: Array) -> Linear:
    return Linear(kernel=np.zeros((2, 3)), bias=x)  # E: Argument "kernel" to "Linear" has incompatible type "ndarray[tuple[int, int], dtype[float64]]"; expected "Array"  [arg-type]


def wrong_type_of_child(x: Array, linear: Linear) -> Block:
    return Block(up=linear, down=x)  # E: Argument "down" to "Block" has incompatible type "Array"; expected "Linear"  [arg-type]


def missing_keyword(x: Array) -> Linear:
    return Linear(kernel=x)  # E: Missing named argument "bias" for "Linear"  [call-arg]


def unknown_keyword(x: Array) -> Linear:
    return Linear(kernel=x, bias=x, scale=x)  # E: Unexpected keyword argument "scale" for "Linear"  [call-arg]


def positional(x: Array) -> Linear:
    return Linear(x, x)  # E: Too many positional arguments for "Linear"  [misc]


def static_field_of_another_type(x: Array) -> TrainState:
    return TrainState(step=x, embed=x, blocks=(), rng=x, note=3)  # E: Argument "note" to "TrainState" has incompatible type "int"; expected "str"  [arg-type]


def list_for_a_tuple(x: Array, block: Block) -> TrainState:
    return TrainState(step=x, embed=x, blocks=[block], rng=x, note="")  # E: Argument "blocks" to "TrainState" has incompatible type "list[Block]"; expected "tuple[Block, ...]"  [arg-type]


def frozen(x: Array, linear: Linear) -> None:
    linear.bias = x  # E: Property "bias" defined in "Linear" is read-only  [misc]


def unknown_attribute(linear: Linear) -> Array:
    return linear.weight  # E: "Linear" has no attribute "weight"  [attr-defined]


def another_argument(x: Array, block: Block) -> Adam[Linear]:
    adam = Adam(count=x, mu=block, nu=block)
    return adam  # E: Incompatible return value type (got "Adam[Block]", expected "Adam[Linear]")  [return-value]


def evolve_with_another_type(linear: Linear) -> Linear:
    return attrs.evolve(linear, bias="0")  # E: Argument 1 to "evolve" has incompatible type "Linear"; expected an attrs class  [misc]  # P: Argument "bias" to "evolve" of "Linear" has incompatible type "str"; expected "Array"  [arg-type]
