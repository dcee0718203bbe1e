"""A class after some years: renamed, split, rescaled. The lock and the history beside it tell how it was before."""

import enum
from typing import TYPE_CHECKING, Annotated, Generic, NamedTuple, TypeVar

from jax import Array
from jaxtyping import Float32, Int32, Key

from tests.generator.cases.generics.schema import Params
from treaty.schema import Dims, Length, Rule, field, migration, state

if TYPE_CHECKING:
    from tests.generator.cases.evolved.expected_history import TrainV3, TrainV4

__treaty__ = "tests.generator.cases.evolved.expected"

_P = TypeVar("_P")


class Mode(enum.Enum):
    TRAIN = 1
    EVAL = 2


class Window(NamedTuple):
    start: int
    mean: Float32[Array, ""]


@state
class Attention:
    query: Float32[Array, "d d"]
    key: Float32[Array, "d d"]
    value: Float32[Array, "d d"]


split = migration(Attention, 1, moves=[Rule("qkv", ("query", "key", "value"), axis=0)])


@state
class Moments(Generic[_P]):
    mu: _P
    pair: tuple[_P, int]


@state
class Chain(Generic[_P]):
    first: Annotated[Moments[_P], Dims(...)] = field(key="0")
    rest: dict[str, _P] = field(key="1")


@state
class Train:
    step: Int32[Array, ""]
    blocks: Annotated[tuple[Attention, ...], Length("n"), Dims(...)]
    opt: Annotated[Chain[Attention], Dims(...)]
    scale: float
    mode: Mode
    note: str | None = None
    window: Window
    params: Params | None
    rng: Key[Array, ""]


@migration(Train, 3)
def rescale(old: "TrainV3") -> "TrainV4":
    """The scale was a percentage."""
    return {**old, "scale": old["scale"] / 100}
