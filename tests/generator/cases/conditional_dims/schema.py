"""Dims that the data may or may not tell: in optional fields, in sequences, through children, by expressions."""

from typing import Annotated, Optional

from jax import Array
from jaxtyping import Float32, Key

from treaty.schema import Dims, Length, state

__treaty__ = "tests.generator.cases.conditional_dims.expected"


@state
class Head:
    kernel: Float32[Array, "d out"] | None
    scale: Float32[Array, "2*d+1"] | None


@state
class Tree:
    value: Float32[Array, "d"] | None
    kids: Annotated[list["Tree"], Dims("d")]
    next: Annotated[Optional["Tree"], Dims("d")]


@state
class Model:
    heads: Annotated[tuple[Head, ...], Dims(d="4*width")]
    tree: Annotated[Tree, Dims(d="width")]
    product: Float32[Array, "a*b"] | None
    left: Float32[Array, "a"] | None
    right: dict[str, Float32[Array, "b+2"]]
    keys: Annotated[list[Key[Array, "n_keys"]], Length("n_keys")]
    fixed: Float32[Array, "heads=8 d_ff=4*width"] | None
    table: Annotated[dict[int, tuple[Float32[Array, "d_ff"], Float32[Array, "c"]]], Length("rows")]
