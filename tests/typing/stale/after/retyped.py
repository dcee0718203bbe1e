"""Fields get other types. This is the schema after."""

# stale: "step": obj.step,  # E: (expression has type "str", TypedDict item "step" has type "int")  [typeddict-item]
# stale: "best": linear_to_state_dict(obj.best),  # E: incompatible type "Linear | None"; expected "Linear"  [arg-type]
# stale: step=_codec.integer(state["step"]),  # E: Argument "step" to "Run" has incompatible type "int"; expected "str"  [arg-type]
# stale: layers=tuple(  # E: incompatible type "tuple[Linear, ...]"; expected "list[Linear]"  [arg-type]

from typing import Annotated

from jax import Array
from jaxtyping import Float32

from treaty.schema import Dims, state


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Run:
    step: str
    layers: Annotated[list[Linear], Dims(None)]
    best: Annotated[Linear | None, Dims(None)]
