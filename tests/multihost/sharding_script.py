"""What each of two processes does; see test_sharding.py."""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from safetensors import safe_open

from treaty.runtime import sharding
from treaty.schema import TreatyError
from treaty.schema.dtypes import TABLE

P: Any = PartitionSpec
abstract: Any = jax.ShapeDtypeStruct
MESH = Mesh(np.array(jax.devices()), ("all",))
SPLIT = NamedSharding(MESH, P("all"))
FIRST = jax.process_index() == 0
assert (jax.process_count(), len(jax.devices()), len(jax.local_devices())) == (2, 4, 2)


def every_bit_pattern(name: str) -> "np.ndarray[Any, np.dtype[Any]]":
    dtype = next(row.numpy for row in TABLE if row.name == name)
    bits = np.arange(256, dtype=np.uint8).reshape(8, 32)
    return bits.view(dtype) if dtype.kind != "b" else (bits % 2).astype(bool)


def local_bytes(array: jax.Array) -> bytes:
    return b"".join(np.asarray(shard.data).tobytes() for shard in array.addressable_shards)


# broadcast_tensor: bit for bit, NaN payloads and -0.0 included; the other process gives only shape and dtype
for name in ("bool", "int8", "uint32", "float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float32", "complex64"):
    tensor = every_bit_pattern(name)
    given = tensor if FIRST else abstract(tensor.shape, tensor.dtype)
    received = sharding.broadcast_tensor(given, 100)
    assert received.is_fully_addressable
    assert np.asarray(received).tobytes() == tensor.tobytes(), name
for name in ("int2", "int4", "uint4", "float4_e2m1fn"):
    values = np.arange(8).astype(bool).astype(next(row.numpy for row in TABLE if row.name == name))
    received = sharding.broadcast_tensor(values if FIRST else np.zeros_like(values), 3)
    assert np.asarray(received).tobytes() == values.tobytes(), name

# to a sharding over both processes, and the odd shapes
tensor = every_bit_pattern("float32")
received = sharding.broadcast_tensor(tensor if FIRST else np.zeros_like(tensor), 64, SPLIT)
assert received.sharding == SPLIT
half = tensor[:4] if FIRST else tensor[4:]
assert local_bytes(received) == half.tobytes()
assert float(sharding.broadcast_tensor(jnp.float32(5 if FIRST else 0), 1)) == 5
assert sharding.broadcast_tensor(jnp.zeros((0, 3)), 1).shape == (0, 3)
keys = jax.random.split(jax.random.key(3 if FIRST else 4), 8)
received = sharding.broadcast_tensor(keys, 1000)
np.testing.assert_array_equal(
    jax.random.key_data(received), jax.random.key_data(jax.random.split(jax.random.key(3), 8))
)

# processes that disagree would hang in different collectives: both get an error instead
with pytest.raises(TreatyError, match=r"expected the same shape, dtype and limit on every process, got \(.,\) float32"):
    sharding.broadcast_tensor(np.zeros(3 if FIRST else 4, np.float32), 8)

# read_process_array: each process reads the file, and the shard function spreads the tensor over both
with safe_open(sys.argv[5], framework="numpy") as reader:
    key, w, mismatch = sharding.read_process_array(
        "w", {"w": lambda x: sharding.reshard(x, SPLIT)}, False, reader, dtype="bf16"
    )
assert (key, w.dtype, w.sharding, mismatch) == ("w", jnp.bfloat16, SPLIT, 0)
whole = np.arange(16).reshape(8, 2).astype(jnp.bfloat16)
assert local_bytes(w) == (whole[:4] if FIRST else whole[4:]).tobytes()

# to_host and gathering bring back what is spread
for cpu_offload in (False, True):
    found = sharding.to_host(w, "float32", MESH, cpu_offload)
    assert found.is_fully_replicated
    np.testing.assert_array_equal(np.asarray(found), whole.astype(np.float32))
gathered = sharding.apply_gather_functions({"w": w, "found": found}, True, False, False)
assert {type(value) for value in gathered.values()} == {np.ndarray}
np.testing.assert_array_equal(gathered["w"], whole)

# reshard spreads what one process holds, keys too
local_keys = jax.random.split(jax.random.key(1), 8)
spread = sharding.reshard({"keys": local_keys, "x": jnp.arange(8)}, SPLIT)
assert spread["keys"].sharding.is_equivalent_to(SPLIT, 1)
assert local_bytes(spread["x"]) == np.arange(4 if FIRST else 8, dtype=np.int32)[0 if FIRST else 4 :].tobytes()
