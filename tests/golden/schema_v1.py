"""What the golden checkpoints hold. Committed files are of these classes: never edit them, add a `schema_v2` beside."""

import enum
from typing import Annotated, Any, Generic, NamedTuple, TypedDict, TypeVar

import ml_dtypes
import numpy as np
from jax import Array
from jaxtyping import BFloat16, Bool, Complex64, Float16, Float32, Int8, Int32, Key, UInt32

from treaty.generator import load
from treaty.schema import ArraySpec, Dims, Fields, Length, field, state

P = TypeVar("P")


class Mode(enum.Enum):
    TRAIN = "t"
    EVAL = "e"


@state
class Dtypes:
    """On the host, where none needs jax_enable_x64 and every bit stays as it is."""

    bool_: Annotated[np.ndarray, ArraySpec("bool", "n")] = field(key="bool")
    int2: Annotated[np.ndarray, ArraySpec("int2", "n")]
    int4: Annotated[np.ndarray, ArraySpec("int4", "n")]
    int8: Annotated[np.ndarray, ArraySpec("int8", "n")]
    int16: Annotated[np.ndarray, ArraySpec("int16", "n")]
    int32: Annotated[np.ndarray, ArraySpec("int32", "n")]
    int64: Annotated[np.ndarray, ArraySpec("int64", "n")]
    uint8: Annotated[np.ndarray, ArraySpec("uint8", "n")]
    uint16: Annotated[np.ndarray, ArraySpec("uint16", "n")]
    uint32: Annotated[np.ndarray, ArraySpec("uint32", "n")]
    uint64: Annotated[np.ndarray, ArraySpec("uint64", "n")]
    float4_e2m1fn: Annotated[np.ndarray, ArraySpec("float4_e2m1fn", "n")]
    float8_e3m4: Annotated[np.ndarray, ArraySpec("float8_e3m4", "n")]
    float8_e4m3b11fnuz: Annotated[np.ndarray, ArraySpec("float8_e4m3b11fnuz", "n")]
    float8_e4m3fn: Annotated[np.ndarray, ArraySpec("float8_e4m3fn", "n")]
    float8_e4m3fnuz: Annotated[np.ndarray, ArraySpec("float8_e4m3fnuz", "n")]
    float8_e5m2: Annotated[np.ndarray, ArraySpec("float8_e5m2", "n")]
    float8_e5m2fnuz: Annotated[np.ndarray, ArraySpec("float8_e5m2fnuz", "n")]
    float8_e8m0fnu: Annotated[np.ndarray, ArraySpec("float8_e8m0fnu", "n")]
    bfloat16: Annotated[np.ndarray, ArraySpec("bfloat16", "n")]
    float16: Annotated[np.ndarray, ArraySpec("float16", "n")]
    float32: Annotated[np.ndarray, ArraySpec("float32", "n")]
    float64: Annotated[np.ndarray, ArraySpec("float64", "n")]
    complex64: Annotated[np.ndarray, ArraySpec("complex64", "n")]
    complex128: Annotated[np.ndarray, ArraySpec("complex128", "n")]


@state
class OddDtypes:
    """Those that TensorStore, and so Orbax, has no name for."""

    int1: Annotated[np.ndarray, ArraySpec("int1", "n")]
    uint1: Annotated[np.ndarray, ArraySpec("uint1", "n")]
    uint2: Annotated[np.ndarray, ArraySpec("uint2", "n")]
    uint4: Annotated[np.ndarray, ArraySpec("uint4", "n")]
    float6_e2m3fn: Annotated[np.ndarray, ArraySpec("float6_e2m3fn", "n")]
    float6_e3m2fn: Annotated[np.ndarray, ArraySpec("float6_e3m2fn", "n")]
    float8_e4m3: Annotated[np.ndarray, ArraySpec("float8_e4m3", "n")]


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: BFloat16[Array, "d_out"]


@state
class Block:
    up: Annotated[Linear, Dims(d_in="d_model", d_out="4*d_model")]
    down: Annotated[Linear, Dims(d_in="4*d_model", d_out="d_model")]


@state
class Params:
    embed: Float32[Array, "vocab d_model"]
    blocks: Annotated[tuple[Block, ...], Length("n_layers"), Dims("d_model")]


@state
class Adam(Generic[P]):
    count: Int32[Array, ""]
    mu: P
    nu: P


class Moments(NamedTuple):
    mean: Float32[Array, "d"]
    var: Float32[Array, "d"]


class Empty(NamedTuple):
    pass


class Scales(TypedDict):
    low: Float32[Array, "d"]
    high: float


class Foreign(NamedTuple):
    """As another library would own it: its annotations say nothing of use."""

    count: Any
    mu: Any


@state
class Values:
    """What is no array."""

    an_int: int
    least: int
    a_float: float
    not_a_number: float
    negative_zero: float
    a_bool: bool
    a_str: str
    a_complex: complex
    nothing: None
    half: np.float16
    brain: ml_dtypes.bfloat16
    mode: Mode
    maybe_mode: Mode | None
    names: list[str]
    sizes: dict[int, int]
    odd_keys: dict[str, int]
    lr: float = field(default=1e-3, key="learning rate")
    note: str = field(default="", static=True)
    shape: tuple[int, ...] = field(default=(), static=True)


@state
class Run:
    step: Int32[Array, ""]
    params: Annotated[Params, Dims(None)]
    opt: Annotated[tuple[Adam[Params], Empty], Dims(...)]
    dtypes: Dtypes
    values: Values
    rng: Key[Array, "streams"]
    rbg: Annotated[Array, ArraySpec("key<rbg>")]
    moments: Annotated[Moments, Dims(None)]
    scales: Annotated[Scales, Dims(None)]
    foreign: Annotated[Foreign, Fields(count=UInt32[Array, ""], mu=Annotated[Moments, Dims(None)])]
    no_rows: Float16[Array, "none 3"]
    mask: Bool[Array, "d_mask"]
    signal: Complex64[Array, "d_mask"]
    empty: tuple[()]
    table: dict[str, list[Int8[Array, "k"] | None]]
    absent: Float32[Array, "o"] | None
    present: Float32[Array, "o"] | None


@state
class Everything:
    run: Run
    dtypes: OddDtypes
    blob: bytes  # which Orbax has no place for either


@state
class Arrays:
    """What eformer's layout keeps: it has no place for None and for nodes without leaves."""

    step: int
    rate: float
    params: Annotated[Params, Dims(None)]
    counts: Annotated[np.ndarray, ArraySpec("int64", "n")]
    flags: Annotated[np.ndarray, ArraySpec("bool", "n")]


@state
class Wide:
    """Beside small arrays one that a directory stores in files of its own."""

    step: Int32[Array, ""]
    table: Float32[Array, "rows 256"]
    bias: BFloat16[Array, "rows"]


load(Everything)
load(Run)
load(Arrays)
load(Wide)
