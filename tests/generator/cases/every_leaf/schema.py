"""Every leaf kind and every container, once."""

import enum
from typing import Annotated, Any, NamedTuple, TypedDict

import ml_dtypes
import numpy as np
from jax import Array
from jax.tree_util import Partial
from jaxtyping import BFloat16, Bool, Complex64, Float8e4m3fn, Float32, Float64, Int4, Int32, Key, UInt8

from treaty.schema import ArraySpec, Dims, Fields, field, state

__treaty__ = "tests.generator.cases.every_leaf.expected"


class Mode(enum.Enum):
    TRAIN = "t"
    EVAL = "e"


class Moments(NamedTuple):
    mean: Float32[Array, "d"]
    var: Float32[Array, "d"]


class Scales(TypedDict):
    low: Float32[Array, "d"]
    high: float


class Foreign(NamedTuple):
    count: Any
    mu: Any


def scaled(x: Any, *, by: Any) -> Any:
    return x * by


@state
class Leaves:
    boolean: Bool[Array, "d"]
    tiny: Int4[Array, "d"]
    byte: UInt8[np.ndarray, "d"]
    small: Float8e4m3fn[Array, "d"]
    brain: BFloat16[np.ndarray, "d"]
    double: Float64[np.ndarray, "d"]
    imaginary: Complex64[Array, "d"]
    spec: Annotated[Array, ArraySpec("float8_e3m4", "d")]
    deep: Float32[Array, "1 1 1 1 1 d"]
    key: Key[Array, "d"]
    rbg: Annotated[Array, ArraySpec("key<rbg>")]
    an_int: int
    a_float: float
    a_bool: bool
    a_str: str
    a_bytes: bytes
    a_complex: complex
    nothing: None
    numpy_half: np.float16
    numpy_brain: ml_dtypes.bfloat16
    mode: Mode = Mode.EVAL
    lr: float = field(default=1e-3)


@state
class Containers:
    moments: Annotated[Moments, Dims(None)]
    scales: Annotated[Scales, Dims(None)]
    foreign: Annotated[Foreign, Fields(count=Int32[Array, ""], mu=Annotated[Moments, Dims(None)])]
    call: Annotated[Partial, Fields(func=scaled, args=(Float32[Array, "d"],), keywords={"by": Float32[Array, ""]})]
    pair: Annotated[tuple[Float32[Array, "d"], tuple[int, Moments]], Dims(None)]
    empty: tuple[()]
    names: list[str]
    nested: dict[str, list[Float32[Array, "k"] | None]]
    numbered: Annotated[dict[int, Moments], Dims(None)]
    maybe_list: Annotated[list[Moments] | None, Dims(None)]
    maybe_mode: Mode | None
    anything: Any
    shape: tuple[int, ...] = field(default=(), static=True)
