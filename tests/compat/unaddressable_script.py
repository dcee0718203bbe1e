"""What each of two processes does; see test_unaddressable.py."""

from typing import Any

import flax.serialization
import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from treaty.runtime import serialization

P: Any = PartitionSpec
MESH = Mesh(np.array(jax.devices()), ("all",))

spread = jax.make_array_from_callback((4,), NamedSharding(MESH, P("all")), lambda index: np.zeros(1, np.float32))
assert not spread.is_fully_addressable
with pytest.raises(ValueError, match=r"^expected an array whose shards are all on this host, got float32\[4\] spread"):
    serialization.to_bytes({"w": spread})
assert serialization.validate_serializable({"w": spread}) == (False, ["Non-addressable array at $.w"])

whole = jax.make_array_from_callback(
    (3,), NamedSharding(MESH, P()), lambda index: np.arange(3, dtype=np.float32)[index]
)
assert (whole.is_fully_addressable, whole.is_fully_replicated) == (False, True)
state = {"w": whole, "more": [whole]}
assert serialization.validate_serializable(state) == (True, [])
data = serialization.to_bytes(state)
assert data == flax.serialization.to_bytes(state)
assert serialization.msgpack_serialize(state) == flax.serialization.msgpack_serialize(state)
assert np.array_equal(serialization.from_bytes(state, data)["more"][0], np.arange(3))
