"""eformer's MessagePack files are Flax's, byte for byte, so what reads the one reads the other."""

import gzip
from pathlib import Path
from typing import Any, NamedTuple

import flax.serialization
import jax.numpy as jnp
import numpy as np

FIXTURES = Path(__file__).parent / "fixtures" / "eformer"


class Pair(NamedTuple):
    left: Any
    right: Any


# The same as in make_msgpack.py.
STATE = {
    "kernel": jnp.arange(6, dtype=jnp.float32).reshape(2, 3) / 4,
    "embed": jnp.arange(4, dtype=jnp.float32).astype(jnp.bfloat16),
    "int64": np.array([2**40, -1]),
    "scalar": np.float16(1.5),
    "layers": [{"w": jnp.zeros((0, 2), jnp.int8)}, (jnp.array(True), None)],
    "pair": Pair(np.array([1 + 2j], np.complex64), 2.5 - 1j),
    "step": 7,
    "lr": 0.1,
    "flag": False,
    "name": "café",
    "raw": b"\x00\xff",
    "empty": {},
    3: "an int key",
}


def test_eformer_writes_the_bytes_of_flax() -> None:
    written = (FIXTURES / "state.msgpack").read_bytes()
    assert written == flax.serialization.to_bytes(STATE)
    assert gzip.decompress((FIXTURES / "state.msgpack.gz").read_bytes()) == written
