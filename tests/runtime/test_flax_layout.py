"""State dicts are laid out as Flax lays them out: the same tree gives the same dict, and each reads the other's."""

from typing import Any

import flax.serialization
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.generator.cases.train_state import schema
from treaty.runtime import from_state_dict, to_state_dict


@flax.struct.dataclass
class FlaxLinear:
    kernel: Any
    bias: Any


@flax.struct.dataclass
class FlaxBlock:
    up: Any
    down: Any


def pair(d_in: int, d_out: int, seed: int) -> tuple[schema.Linear, FlaxLinear]:
    kernel = jax.random.normal(jax.random.key(seed), (d_in, d_out))
    bias = jnp.arange(d_out, dtype=jnp.float32)
    return schema.Linear(kernel=kernel, bias=bias), FlaxLinear(kernel, bias)


@given(st.integers(1, 4), st.integers(0, 100))
def test_a_struct_dataclass_with_the_same_fields_gives_the_same_dict(d_model: int, seed: int) -> None:
    up, flax_up = pair(d_model, 4 * d_model, seed)
    down, flax_down = pair(4 * d_model, d_model, seed + 1)
    ours = to_state_dict(schema.Block(up=up, down=down))
    theirs = flax.serialization.to_state_dict(FlaxBlock(flax_up, flax_down))
    assert list(ours) == list(theirs)
    for layer in ("up", "down"):
        assert list(ours[layer]) == list(theirs[layer])
        assert all(ours[layer][key] is theirs[layer][key] for key in ours[layer])


def test_each_reads_the_others_state_dict() -> None:
    up, flax_up = pair(2, 8, 0)
    down, flax_down = pair(8, 2, 1)
    block = from_state_dict(schema.Block, flax.serialization.to_state_dict(FlaxBlock(flax_up, flax_down)))
    assert np.array_equal(block.up.kernel, flax_up.kernel)
    target = FlaxBlock(FlaxLinear(0, 0), FlaxLinear(0, 0))
    restored = flax.serialization.from_state_dict(target, to_state_dict(schema.Block(up=up, down=down)))
    assert np.array_equal(restored.down.bias, down.bias)


def test_flax_bytes_of_our_state_dict_come_back() -> None:
    up, _ = pair(2, 8, 0)
    data = flax.serialization.msgpack_serialize(to_state_dict(up))
    again = from_state_dict(schema.Linear, flax.serialization.msgpack_restore(data))
    assert isinstance(again.kernel, jax.Array)
    assert np.array_equal(again.kernel, up.kernel)
