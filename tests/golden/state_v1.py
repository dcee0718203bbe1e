"""The values in the golden checkpoints, made anew from arithmetic alone, so that they can be compared for ever."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from tests.golden.schema_v1 import (
    Adam,
    Arrays,
    Block,
    Dtypes,
    Empty,
    Everything,
    Foreign,
    Linear,
    Mode,
    Moments,
    OddDtypes,
    Params,
    Run,
    Scales,
    Values,
    Wide,
)

T = TypeVar("T")
Host = np.ndarray[Any, np.dtype[Any]]
NARROW = {"bool": 1, "int1": 1, "uint1": 1, "int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}
NARROW |= {"float6_e2m3fn": 6, "float6_e3m2fn": 6}
METADATA = {"run": "é", "loss": [1.5, None, True], "nested": {"deep": {"count": 3}}, "empty": {}}
TEXT_METADATA = {"run": "é", "commit": "0001"}  # safetensors holds text


def everything() -> Everything:
    return Everything(run=run(), dtypes=every_dtype(OddDtypes), blob=b"\0\xff")


def everything_and_a_huge_int() -> Everything:
    """Beyond 64 bits, where MessagePack ends; dims that four devices can divide."""
    return Everything(run=run(3**150, vocab=8), dtypes=every_dtype(OddDtypes), blob=b"\0\xff")


def run(largest: int = 2**64 - 1, vocab: int = 5) -> Run:
    values = Values(
        an_int=largest,
        least=-(2**63),
        a_float=0.1,
        not_a_number=float("nan"),
        negative_zero=-0.0,
        a_bool=True,
        a_str='é"\n\0',
        a_complex=complex(1.5, -0.0),
        nothing=None,
        half=np.float16(0.5),
        brain=ml_dtypes.bfloat16(1.5),
        mode=Mode.EVAL,
        maybe_mode=None,
        names=["", "a", "ü"],
        sizes={-1: 1, 10: 2},
        odd_keys={"a.b": 1, "c/d": 2, "e%f": 3, "": 4, "__treaty__": 5},
        lr=2.5e-4,
        note="first",
        shape=(2, 3),
    )
    return Run(
        step=jnp.int32(7),
        params=params(1, vocab),
        opt=(Adam(count=jnp.int32(6), mu=params(2, vocab), nu=params(3, vocab)), Empty()),
        dtypes=every_dtype(Dtypes),
        values=values,
        rng=jax.random.wrap_key_data(jnp.arange(8, dtype=jnp.uint32).reshape(4, 2), impl="threefry2x32"),
        rbg=jax.random.wrap_key_data(jnp.arange(4, dtype=jnp.uint32), impl="rbg"),
        moments=moments(4, 3),
        scales=Scales(low=on_device("float32", 5, (2,)), high=2.5),
        foreign=Foreign(jnp.uint32(9), moments(6, 2)),
        no_rows=jnp.zeros((0, 3), jnp.float16),
        mask=on_device("bool", 7, (6,)),
        signal=on_device("complex64", 8, (6,)),
        empty=(),
        table={"one": [on_device("int8", 9, (3,)), None], "two": []},
        absent=None,
        present=on_device("float32", 10, (4,)),
    )


def arrays() -> Arrays:
    return Arrays(step=7, rate=0.5, params=params(1), counts=bits("int64", 2, (8,)), flags=bits("bool", 3, (8,)))


def wide() -> Wide:
    rows = 1100
    numbers = np.arange(rows * 256) % 251  # 1.1 MB that a zip file makes small
    return Wide(
        step=jnp.int32(7),
        table=jnp.asarray(numbers.reshape(rows, 256).astype(np.float32)),
        bias=jnp.asarray(numbers[:rows].astype(ml_dtypes.bfloat16)),
    )


def live() -> dict[str, Any]:
    """A tree as Flax and optax make them, for the drop-in modules, which need no class."""
    return {
        "params": {"dense": {"kernel": bits("float32", 1, (3, 4)), "bias": bits("bfloat16", 2, (4,))}},
        "opt_state": (
            Foreign(np.int32(3), {"dense": bits("float16", 3, (5,))}),
            Empty(),
            [bits("int64", 4, (2,)), None],
        ),
        "step": 7,
        "rate": 0.1,
        "scale": complex(1.5, -0.0),
        "name": "é",
        "blob": b"\0\xff",
        "done": True,
        "empty": {},
        "no_rows": np.zeros((0, 3), np.uint8),
        "scalar": np.array(2.5),
        "half": np.float16(0.5),
    }


def params(seed: int, vocab: int = 5) -> Params:
    blocks = tuple(Block(up=linear(seed + i, 2, 8), down=linear(seed + i + 1, 8, 2)) for i in (10, 20))
    return Params(embed=on_device("float32", seed, (vocab, 2)), blocks=blocks)


def linear(seed: int, d_in: int, d_out: int) -> Linear:
    return Linear(kernel=on_device("float32", seed, (d_in, d_out)), bias=on_device("bfloat16", seed, (d_out,)))


def moments(seed: int, d: int) -> Moments:
    return Moments(on_device("float32", seed, (d,)), on_device("float32", seed + 1, (d,)))


def every_dtype(cls: type[T]) -> T:
    """Every element that a dtype of one byte has; of wider ones, as many with bits of all kinds, NaNs among them."""
    return cls(**{field: bits(field.removesuffix("_"), 0, (256,)) for field in cls.__annotations__})


def on_device(name: str, seed: int, shape: tuple[int, ...]) -> jax.Array:
    return jnp.asarray(bits(name, seed, shape))


def bits(name: str, seed: int, shape: tuple[int, ...]) -> Host:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    count = int(np.prod(shape))
    if name in NARROW or dtype.itemsize == 1:
        numbers = (np.arange(count) + seed).astype(np.uint8) & np.uint8(2 ** NARROW.get(name, 8) - 1)
        if name.startswith("int") and name in NARROW:  # such are kept with their sign in the upper bits
            numbers = np.where(numbers >= 2 ** (NARROW[name] - 1), numbers - np.uint8(2 ** NARROW[name]), numbers)
        return numbers.astype(np.uint8).view(dtype).reshape(shape)
    # Knuth's multiplicative hash: all exponents and signs appear, in the same order everywhere.
    words = (np.arange(count * dtype.itemsize // 2, dtype=np.uint64) + np.uint64(1 + 1000 * seed)) * np.uint64(
        2654435761
    )
    return (words >> np.uint64(16)).astype("<u2").view(dtype).reshape(shape)
