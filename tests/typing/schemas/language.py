"""Every row of the schema language, in its odder spellings: none of it may be reported."""

import enum
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Final, Generic, NamedTuple, Optional, TypedDict, TypeVar, Union

import attrs
import jax
import jaxtyping as jt
import numpy as np
from jax import Array
from jax.tree_util import Partial
from jaxtyping import Bool, Complex64, Float8e5m2, Float32, Int4, Key
from jaxtyping import Float32 as F32
from jaxtyping import PyTree as PyTree  # pyright: ignore[reportUnknownVariableType] - as jaxtyping declares it

from treaty.schema import ArraySpec, Dims, Fields, Length, field, state

P = TypeVar("P")
Matrix = Float32[Array, "rows cols"]
Callback = Callable[[int], int]


class Mode(enum.Enum):
    TRAIN = 1
    EVAL = 2


class Moments(NamedTuple):
    mean: Float32[Array, "n"]
    seen: int


class Options(TypedDict):
    rate: float
    scale: Float32[Array, "n"]


@attrs.frozen
class Plain:
    x: Float32[Array, "n"]


class Sub(Plain):
    """A subclass of an attrs class is one, without a decorator of its own."""


class Theirs:
    """A class of another library, which its library made an attrs class in a way mypy does not see."""


def scaled(x: Array, *, scale: float) -> Array:
    return x * scale


@state
class Arrays:
    kept: ClassVar[set[int]] = set()
    also_kept: "ClassVar[Callback]"
    plain: Float32[Array, "a b"]
    aliased: F32[Array, "a"]
    dotted: jt.Float32[jax.Array, "a"]
    quoted: "Float32[Array, 'a b']"
    host: Float32[np.ndarray, "a"]
    host_with_parameters: Float32[np.ndarray[Any, Any], "a"]
    by_alias: Matrix
    labelled: Float32[Array, "twice=2*a half=b//2"]
    scalar: Bool[Array, ""]
    narrow: Int4[Array, "a"]
    eighth: Float8e5m2[Array, "a"]
    complex: Complex64[Array, "3"]
    unnamed_dtype: Annotated[Array, ArraySpec("float8_e4m3", "a b")]
    key: Key[Array, "a"]
    typed_key: Annotated[Array, ArraySpec("key<rbg>", "")]


@state
class Leaves:
    number: int
    flag: bool = False
    rate: float = 1e-3
    phase: complex = 0j
    name: str = field(default="", static=True)
    raw: bytes = b""
    nothing: None = None
    mode: Mode = Mode.TRAIN
    frozen_mode: Mode = field(default=Mode.TRAIN, static=True)
    shape: tuple[int, ...] = field(default=(), static=True)
    numpy_float: np.float32 = field(factory=lambda: np.float32(0))
    numpy_int: np.int64 = field(factory=lambda: np.int64(0))
    anything: Any = None
    tree: PyTree = None
    tree_of_floats: PyTree[float] = None
    renamed: int = field(default=0, key="old name")


@state
class Box(Generic[P]):
    inside: P
    other: "P | None" = None


@state
class Nodes:
    moments: Annotated[Moments, Dims(None)]
    options: Annotated[Options, Dims(n="m")]
    plain: Annotated[Plain, Dims(None)]
    sub: Annotated[Sub, Dims("n")]
    boxed: Annotated[Box[Arrays], Dims(...)]
    boxed_by_name: Annotated[Box["Plain"], Dims(None)]
    listed: Annotated[list[Plain], Length("n_layers"), Dims(n="4*m")]
    fixed: tuple[int, Annotated[Plain, Dims(n=None)], Annotated[Arrays, Dims(None)]]
    empty: tuple[()]
    by_name: Annotated[dict[str, Plain], Length(3), Dims(None)]
    by_number: Annotated[dict[int, "Plain"], Dims(None)]
    maybe: Annotated[Plain | None, Dims(None)]
    maybe_too: Annotated[Optional[Plain], Dims(None)]  # noqa: UP045 - this spelling is a row of its own
    maybe_again: Annotated[Union[Plain, None], Dims(None)]  # noqa: UP007
    width: Float32[Array, "m"]


@state
class Tree:
    value: Float32[Array, "d"]
    left: Annotated["Tree | None", Dims(...)] = None
    rest: "Annotated[list[Tree], Dims(None)]" = field(factory=list)  # pyright: ignore[reportUnknownVariableType] - as of any factory=list


@state
class Foreign:
    moments: Annotated[Moments, Fields(mean=Float32[Array, "k"], seen=int)]
    call: Annotated[Partial, Fields(func=scaled, args=(Float32[Array, "k"],), keywords={"scale": float})]


LIMIT: Final = 3
TIES: Final = Dims(n="m")


@state
class Computed:
    """What only running the code tells is left to `treaty generate`."""

    listed: Annotated[list[Plain], Length(LIMIT)]
    tied: Annotated[Plain, TIES]
    width: Float32[Array, "m"]


@state(reserved=("gone", "class"))
class Evolved:
    renamed: Float32[Array, "a"] = field(aliases=("was", "with space", "def"), cast_from=("float64", "bfloat16"))
    listed: Int4[Array, "a"] = field(aliases=["other"], cast_from=["int8"])
    both: tuple[Float32[Array, "a"], Complex64[Array, "a"]] = field(cast_from=("float32",))
    missing: Float32[Array, "a"] | None = field(default=None, aliases=())
    made: list[int] = field(factory=lambda: [1], key="made lists")
    whole: float = 1
    mode: Mode = Mode.TRAIN
    nothing: None = None
    several: tuple[int, ...] = (1, 2)
    table: dict[str, float] = field(default={"a": 1})
    options: Options | None = field(default=None)


@state(reserved=["earlier"])
class EvolvedFurther(Evolved):
    more: int = field(default=0, aliases=("less",))
