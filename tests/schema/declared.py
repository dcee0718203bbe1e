"""Declarations that several tests read: one of everything."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Generic, NamedTuple, TypedDict, TypeVar

import attrs
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import Array
from jax.tree_util import Partial
from jaxtyping import BFloat16, Bool, Float32, Int32, Key, PyTree

from treaty.schema import ArraySpec, Dims, Fields, Length, field, state

P = TypeVar("P")


class Mode(enum.Enum):
    TRAIN = "t"
    EVAL = "e"


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Block:
    up: Annotated[Linear, Dims(d_in="d_model", d_out="4*d_model")]
    down: Annotated[Linear, Dims(d_in="4*d_model", d_out="d_model")]


@state
class Adam(Generic[P]):
    count: Int32[Array, ""]
    mu: P
    nu: P


class Moments(NamedTuple):
    mean: Float32[Array, "d"]
    var: Float32[Array, "d"]


class Scales(TypedDict):
    low: Float32[Array, "d"]
    high: float


@attrs.define
class Plain:
    _count: int
    weight: Float32[np.ndarray, "n"]


@state
class Tree:
    value: Float32[Array, "d"]
    left: Annotated[Tree | None, Dims(...)] = None
    kids: Annotated[tuple[Tree, ...], Dims(None)] = ()


class Foreign(NamedTuple):
    """A class that another library would own: its annotations say nothing of use."""

    count: Any
    mu: Any


def scaled(x: Any, y: Any, *, by: Any) -> Any:
    return x * by + y


@state
class Everything:
    step: Int32[Array, ""]
    embed: BFloat16[Array, "vocab d_model"]
    blocks: Annotated[tuple[Block, ...], Length("n_layers"), Dims("d_model")]
    opt: Annotated[Adam[Block], Dims(...)]
    foreign: Annotated[Foreign, Fields(count=Int32[Array, ""], mu=Annotated[Block, Dims(...)])]
    rng: Key[Array, "2"]
    rbg: Annotated[Array, ArraySpec("key<rbg>")]
    wide: Annotated[Array, ArraySpec("float8_e4m3", "heads=8 d_ff=4*d_model")]
    moments: Annotated[Moments, Dims(d="d_model")]
    scales: Annotated[Scales, Dims(None)]
    plain: Plain
    tree: Annotated[Tree | None, Dims(None)]
    pair: tuple[Float32[Array, "d_model"], Linear]
    empty: tuple[()]
    names: list[Float32[Array, "k"]]
    table: dict[str, Float32[Array, "m"]]
    slots: Annotated[dict[int, Int32[np.ndarray, ""]], Length("n_slots")]
    maybe: Float32[Array, "o"] | None
    call: Annotated[
        Partial,
        Fields(func=scaled, args=(Float32[Array, "d_model"],), keywords={"by": Float32[Array, ""]}),
    ]
    anything: PyTree
    more: Any
    mask: Bool[Array, "d_model"]
    half: np.float16
    brain: ml_dtypes.bfloat16
    mode: Mode
    an_int: int
    a_float: float
    a_bool: bool
    a_str: str
    a_bytes: bytes
    a_complex: complex
    nothing: None
    lr: float = field(default=1e-3, key="learning rate")
    note: str = field(default="", static=True)
    shape: tuple[int, ...] = field(default=(), static=True)


def linear(d_in: int, d_out: int, fill: float = 1.0) -> Linear:
    return Linear(kernel=jnp.full((d_in, d_out), fill), bias=jnp.zeros(d_out))


def block(d_model: int) -> Block:
    return Block(up=linear(d_model, 4 * d_model), down=linear(4 * d_model, d_model))


def everything() -> Everything:
    """A small valid instance: vocab 5, d_model 2, n_layers 3."""
    make: Any = Partial  # untyped in jax
    vector = jnp.arange(2, dtype=jnp.float32)
    return Everything(
        step=jnp.int32(7),
        embed=jnp.ones((5, 2), jnp.bfloat16),
        blocks=(block(2), block(2), block(2)),
        opt=Adam(count=jnp.int32(1), mu=block(2), nu=block(2)),
        foreign=Foreign(jnp.int32(1), block(2)),
        rng=jax.random.split(jax.random.key(0), 2),
        rbg=jax.random.key(1, impl="rbg"),
        wide=jnp.ones((8, 8), ml_dtypes.float8_e4m3),
        moments=Moments(vector, vector + 1),
        scales=Scales(low=jnp.ones(9), high=2.5),
        plain=Plain(count=4, weight=np.ones(6, np.float32)),
        tree=Tree(value=jnp.ones(3), left=Tree(value=jnp.zeros(3)), kids=(Tree(value=jnp.ones(1)),)),
        pair=(vector, linear(1, 1)),
        empty=(),
        names=[jnp.ones(4), jnp.zeros(4)],
        table={"a": jnp.ones(2), "b.c/d": jnp.zeros(2)},
        slots={-1: np.array(3, np.int32), 10: np.array(4, np.int32)},
        maybe=None,
        call=make(scaled, vector, by=jnp.float32(2)),
        anything={"x": [jnp.ones(1), (1, 2)], "y": None},
        more=3,
        mask=jnp.ones(2, bool),
        half=np.float16(0.5),
        brain=ml_dtypes.bfloat16(1.5),
        mode=Mode.EVAL,
        an_int=2**70,
        a_float=float("inf"),
        a_bool=True,
        a_str="é\"'",
        a_bytes=b"\0\xff",
        a_complex=1 + 2j,
        nothing=None,
        note="n",
        shape=(1, 2),
    )
