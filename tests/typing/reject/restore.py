"""Mistakes in restoring: the wrong state, the wrong dims, the wrong class for the result."""

from typing import Any

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
    # E: Incompatible return value type (got "Linear", expected "Block")  [return-value]
    return from_state_dict(Linear, state)


def restored_into_a_variable_of_another_class() -> Block:
    linear = from_state_dict(Linear, state)
    # E: Incompatible return value type (got "Linear", expected "Block")  [return-value]
    return linear


def restored_with_another_argument() -> Adam[Block]:
    adam = from_state_dict(Adam[Linear], state)
    # E: Incompatible return value type (got "Adam[Linear]", expected "Adam[Block]")  [return-value]
    return adam


def attribute_of_another_class() -> None:
    # E: "TrainState" has no attribute "kernel"  [attr-defined]
    print(from_state_dict(TrainState, state).kernel)


def list_for_a_state() -> None:
    # E: No overload variant of "from_state_dict" matches argument types "type[Linear]", "list[int]"  [call-overload]
    from_state_dict(Linear, [1, 2])


def state_first() -> None:
    # E: No overload variant of "from_state_dict" matches argument types "dict[str, Any]", "type[Linear]"  [call-overload]
    from_state_dict(state, Linear)


def dims_as_names() -> None:
    # E: No overload variant of "from_state_dict" matches argument types "type[Linear]", "dict[str, Any]", "list[str]"  [call-overload]
    from_state_dict(Linear, state, dims=["d_in"])


def unknown_destination() -> None:
    # E: No overload variant of "from_state_dict" matches argument types "type[Linear]", "dict[str, Any]", "str"  [call-overload]
    from_state_dict(Linear, state, into="jax")


def state_of_another_class(block: BlockState) -> Linear:
    # E: Argument 1 to "linear_from_state_dict" has incompatible type "BlockState"; expected "LinearState"  [arg-type]
    return linear_from_state_dict(block)


def untyped_state_for_a_typed_one() -> Linear:
    # E: Argument 1 to "linear_from_state_dict" has incompatible type "dict[str, Any]"; expected "LinearState"  [arg-type]
    return linear_from_state_dict(state)


def unknown_dim(block: BlockState) -> Block:
    # E: Unexpected keyword argument "d_in" for "block_from_state_dict"  [call-arg]
    return block_from_state_dict(block, d_in=3)


def object_of_another_class(block: Block) -> LinearState:
    # E: Argument 1 to "linear_to_state_dict" has incompatible type "Block"; expected "Linear"  [arg-type]
    return linear_to_state_dict(block)


def class_for_an_object() -> LinearState:
    # E: Argument 1 to "linear_to_state_dict" has incompatible type "type[Linear]"; expected "Linear"  [arg-type]
    return linear_to_state_dict(Linear)


def abstract_of_an_object(linear: Linear) -> Linear:
    # E: Argument 1 to "abstract" has incompatible type "Linear"; expected "type[Never]"  [arg-type]
    return abstract(linear, d_in=1, d_out=2)


def abstract_with_text() -> Linear:
    # E: Argument "d_in" to "abstract" has incompatible type "str"; expected "int"  [arg-type]
    return abstract(Linear, d_in="4", d_out=8)


def abstract_without_a_dim() -> Linear:
    # E: Missing positional argument "d_out" in call to "linear_abstract"  [call-arg]
    return linear_abstract(4)


def bytes_as_text() -> str:
    # E: Incompatible return value type (got "int", expected "str")  [return-value]
    return nbytes(Linear, d_in=4, d_out=8)


def state_dict_as_object(linear: Linear) -> Linear:
    # E: Incompatible return value type (got "dict[str, Any]", expected "Linear")  [return-value]
    return to_state_dict(linear)
