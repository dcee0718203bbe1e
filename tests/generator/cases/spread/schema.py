"""Items beside the other keys of their class: of tuples, lists and dicts, with sizes that only they tell."""

from typing import Annotated, NamedTuple

from jax import Array
from jaxtyping import Float32, Int32

from treaty.schema import Dims, Keys, Length, state

__treaty__ = "tests.generator.cases.spread.expected"


@state
class Block:
    kernel: Float32[Array, "d_model d_model"]
    bias: Float32[Array, "d_model"] | None


@state
class Transformer:
    embed: Float32[Array, "vocab d_model"]
    blocks: Annotated[tuple[Block, ...], Keys("block_{i}"), Length("n_layers"), Dims("d_model")]
    norm: Float32[Array, "d_model"]


class Pair(NamedTuple):
    ends: Annotated[tuple[Block, Int32[Array, "n"]], Keys("end_{i}"), Dims(d_model="d")]
    steps: Annotated[list[float], Keys("{i}")]


@state
class Tower:
    """No key but those of items, and a dim that is called as the field is."""

    convs: Annotated[dict[str, Float32[Array, "convs"]], Keys("conv_{key}")]
    slots: Annotated[dict[int, Block | None], Keys("at {i}.slot"), Dims(d_model="2*convs")]


@state
class Model:
    pair: Annotated[Pair, Dims(d="width")]
    tower: Annotated[Tower, Dims(convs="width")]
    body: Annotated[Transformer, Dims(n_layers="depth", d_model="width")]
