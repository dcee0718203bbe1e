"""The values of generation 0002: those of the first, and of classes that are locked."""

from typing import Any

import jax
import jax.numpy as jnp

from tests.golden.schema_v2 import Trained, evolved_project
from tests.golden.state_v1 import METADATA as METADATA
from tests.golden.state_v1 import TEXT_METADATA as TEXT_METADATA
from tests.golden.state_v1 import arrays as arrays
from tests.golden.state_v1 import everything as everything
from tests.golden.state_v1 import everything_and_a_huge_int as everything_and_a_huge_int
from tests.golden.state_v1 import live as live
from tests.golden.state_v1 import on_device
from tests.golden.state_v1 import run as run
from tests.golden.state_v1 import wide as wide
from treaty.schema.library.optax import AdamState, AdamW, EmptyState, LionState, ScheduleState, TraceState
from treaty.schema.library.transformer import Attention, Block, Mlp, Norm, Params, TrainState


def trained() -> Trained:
    adam = AdamState(count=jnp.int32(6), mu=params(2), nu=params(3))
    return Trained(
        run=TrainState(
            step=jnp.int32(7),
            params=params(1),
            opt=AdamW(adam=adam, weight_decay=EmptyState(), learning_rate=ScheduleState(count=jnp.int32(6))),
            rng=jax.random.wrap_key_data(jnp.arange(2, dtype=jnp.uint32), impl="threefry2x32"),
        ),
        other=(
            EmptyState(),
            AdamState(count=jnp.int32(5), mu=params(4), nu=params(5)),
            LionState(count=jnp.int32(4), mu=params(6)),
            TraceState(trace=params(7)),
        ),
        schedule=ScheduleState(count=jnp.int32(3)),
    )


def evolved() -> Any:
    """Of the present revision of its class, whatever it was written as."""
    project = evolved_project()
    attention = project["Attention"](
        query=on_device("float32", 1, (3, 3)),
        key=on_device("float32", 2, (3, 3)),
        value=on_device("float32", 3, (3, 3)),
        gain=on_device("bfloat16", 4, (3,)),
    )
    return project["Evolved"](count=jnp.int32(7), attention=attention, old=5)


def params(seed: int) -> Params:
    return Params(
        embedding=on_device("float32", seed, (5, 4)),
        blocks=(block(seed + 10), block(seed + 20)),
        final_norm=Norm(scale=on_device("float32", seed + 30, (4,))),
    )


def block(seed: int) -> Block:
    attention = Attention(
        query=on_device("float32", seed + 1, (4, 2, 3)),
        key=on_device("float32", seed + 2, (4, 1, 3)),
        value=on_device("float32", seed + 3, (4, 1, 3)),
        out=on_device("float32", seed + 4, (2, 3, 4)),
    )
    mlp = Mlp(
        gate=on_device("float32", seed + 5, (4, 6)),
        up=on_device("float32", seed + 6, (4, 6)),
        down=on_device("float32", seed + 7, (6, 4)),
    )
    norms = [Norm(scale=on_device("float32", seed + number, (4,))) for number in (8, 9)]
    return Block(attention_norm=norms[0], attention=attention, mlp_norm=norms[1], mlp=mlp)
