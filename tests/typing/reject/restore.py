"""Mistakes in restoring: the wrong state, the wrong dims, the wrong class for the result."""

from typing import Any

from jax import Array

from schemas.model import Block, Linear, TrainState
from schemas.model_treaty import (
    BlockState,
    LinearState,
    block_from_state_dict,
    linear_abstract,
    linear_from_state_dict,
    linear_to_state_dict,
)
from schemas.optim import Adam
from treaty.runtime import abstract, from_state_dict, nbytes, to_state_dict

state: dict[str, Any] = {}


def restored_as_another_class() -> Block:
    return from_state_dict(Linear, state)  # E: Argument 1 to "from_state_dict" has incompatible type "type[Linear]"; expected "type[Block]"  [arg-type]


def restored_into_a_variable_of_another_class() -> Block:
    linear = from_state_dict(Linear, state)
    return linear  # E: Incompatible return value type (got "Linear", expected "Block")  [return-value]


def restored_with_another_argument() -> Adam[Block]:
    adam = from_state_dict(Adam[Linear], state)
    return adam  # E: Incompatible return value type (got "Adam[Linear]", expected "Adam[Block]")  [return-value]


def attribute_of_another_class() -> Array:
    return from_state_dict(TrainState, state).kernel  # E: "TrainState" has no attribute "kernel"  [attr-defined]


def list_for_a_state() -> Linear:
    return from_state_dict(Linear, [1, 2])  # E: [call-overload]


def state_first() -> None:
    from_state_dict(state, Linear)  # E: [call-overload]


def dims_as_names() -> Linear:
    return from_state_dict(Linear, state, dims=["d_in"])  # E: [call-overload]


def unknown_destination() -> Linear:
    return from_state_dict(Linear, state, into="jax")  # E: [call-overload]


def state_of_another_class(block: BlockState) -> Linear:
    return linear_from_state_dict(block)  # E: Argument 1 to "linear_from_state_dict" has incompatible type "BlockState"; expected "LinearState"  [arg-type]


def untyped_state_for_a_typed_one() -> Linear:
    return linear_from_state_dict(state)  # E: Argument 1 to "linear_from_state_dict" has incompatible type "dict[str, Any]"; expected "LinearState"  [arg-type]


def unknown_dim(block: BlockState) -> Block:
    return block_from_state_dict(block, d_in=3)  # E: Unexpected keyword argument "d_in" for "block_from_state_dict"  [call-arg]


def object_of_another_class(block: Block) -> LinearState:
    return linear_to_state_dict(block)  # E: Argument 1 to "linear_to_state_dict" has incompatible type "Block"; expected "Linear"  [arg-type]


def class_for_an_object() -> LinearState:
    return linear_to_state_dict(Linear)  # E: Argument 1 to "linear_to_state_dict" has incompatible type "type[Linear]"; expected "Linear"  [arg-type]


def abstract_of_an_object(linear: Linear) -> Linear:
    return abstract(linear, d_in=1, d_out=2)  # E: Argument 1 to "abstract" has incompatible type "Linear"; expected "type[Linear]"  [arg-type]


def abstract_with_text() -> Linear:
    return abstract(Linear, d_in="4", d_out=8)  # E: Argument "d_in" to "abstract" has incompatible type "str"; expected "int"  [arg-type]


def abstract_without_a_dim() -> Linear:
    return linear_abstract(4)  # E: Missing positional argument "d_out" in call to "linear_abstract"  [call-arg]


def bytes_as_text() -> str:
    return nbytes(Linear, d_in=4, d_out=8)  # E: Incompatible return value type (got "int", expected "str")  [return-value]


def state_dict_as_object(linear: Linear) -> Linear:
    return to_state_dict(linear)  # E: Incompatible return value type (got "dict[str, Any]", expected "Linear")  [return-value]
