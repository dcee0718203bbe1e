"""A reference decoder-only transformer: its params, and the state of a run that trains them with AdamW.

Pre-norm blocks with RMSNorm, grouped-query attention and a gated MLP; rotary positions, so that none are learned. All
weights are float32: the master copy, which a step casts down as it likes.

The head is tied: logits are `x @ embedding.T`, so there is no leaf for it. A model with a head of its own is another
class with one field more (`head: Float32[Array, "d_model vocab"]`), not this one with an optional: then the schema
alone says what a checkpoint holds, and how many bytes it takes.
"""

from typing import Annotated

from jax import Array
from jaxtyping import Float32, Int32, Key

from treaty.schema import Dims, Length, state
from treaty.schema.library.optax import AdamW, ScheduleState

__treaty__ = "treaty.generated.transformer"


@state
class Norm:
    scale: Float32[Array, "d_model"]


@state
class Attention:
    """Query heads share the key and value heads in groups: n_heads is a multiple of n_kv_heads."""

    query: Float32[Array, "d_model n_heads d_head"]
    key: Float32[Array, "d_model n_kv_heads d_head"]
    value: Float32[Array, "d_model n_kv_heads d_head"]
    out: Float32[Array, "n_heads d_head d_model"]


@state
class Mlp:
    gate: Float32[Array, "d_model d_ff"]
    up: Float32[Array, "d_model d_ff"]
    down: Float32[Array, "d_ff d_model"]


@state
class Block:
    attention_norm: Annotated[Norm, Dims(...)]
    attention: Annotated[Attention, Dims(...)]
    mlp_norm: Annotated[Norm, Dims(...)]
    mlp: Annotated[Mlp, Dims(...)]


@state
class Params:
    embedding: Float32[Array, "vocab d_model"]
    blocks: Annotated[tuple[Block, ...], Length("n_layers"), Dims(...)]
    final_norm: Annotated[Norm, Dims(...)]


@state
class TrainState:
    """`opt` is the state of `optax.adamw(schedule)`: `from_optax(tx.init(params), AdamW[Params, ScheduleState])`."""

    step: Int32[Array, ""]
    params: Annotated[Params, Dims(...)]
    opt: Annotated[AdamW[Params, ScheduleState], Dims(...)]
    rng: Key[Array, ""]
