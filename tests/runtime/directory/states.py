"""A small training state for the tests of directory checkpoints, and a layout so fine that it has many chunks."""

from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import BFloat16, Float32, Int32, Key

from treaty.generator import load
from treaty.schema import Dims, Length, field, state


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Block:
    up: Annotated[Linear, Dims(d_in="d_model", d_out="4*d_model")]
    down: Annotated[Linear, Dims(d_in="4*d_model", d_out="d_model")]


@state
class Params:
    embed: BFloat16[Array, "vocab d_model"]
    blocks: Annotated[tuple[Block, ...], Length("n_layers"), Dims("d_model")]


@state
class Train:
    step: Int32[Array, ""]
    params: Params
    rng: Key[Array, "streams"]
    seen: Float32[np.ndarray, "n"]
    lr: float = field(default=1e-3)
    note: str = field(default="", static=True)


@state
class StepAndParams:
    step: Int32[Array, ""]
    params: Params


load(Train)
load(StepAndParams)


def linear(d_in: int, d_out: int, seed: int = 0) -> Linear:
    kernel = np.random.default_rng(seed).standard_normal((d_in, d_out), np.float32)
    return Linear(kernel=jnp.asarray(kernel), bias=jnp.arange(d_out, dtype=jnp.float32))


def train(seed: int = 0, d_model: int = 8) -> Train:
    embed = np.random.default_rng(seed).standard_normal((32, d_model)).astype(jnp.bfloat16)
    wide = 4 * d_model
    blocks = tuple(Block(up=linear(d_model, wide, seed + i), down=linear(wide, d_model, seed + 10 * i)) for i in (1, 2))
    return Train(
        step=jnp.int32(seed),
        params=Params(embed=jnp.asarray(embed), blocks=blocks),
        rng=jax.random.split(jax.random.key(seed), 4),
        seen=np.arange(16, dtype=np.float32),
        note=f"run {seed}",
    )


def bits(tree: Any) -> list[tuple[str, Any]]:
    """Every leaf, bit for bit, as something that can be compared and shown."""
    return [(jax.tree_util.keystr(path), _bits(leaf)) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]


def _bits(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if isinstance(leaf, (jax.Array, np.ndarray)):
        host = np.asarray(leaf)
        return str(host.dtype), host.shape, host.tobytes()
    return type(leaf), leaf


def files_of(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file())
