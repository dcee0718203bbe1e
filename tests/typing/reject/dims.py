"""Dims that cannot be parsed, tied or known. To mypy they are text: all of this needs the plugin."""

from typing import Annotated, Generic, TypeVar

from jax import Array
from jaxtyping import Float32
from schemas.aliases import F32
from schemas.model import Block, Linear
from schemas.optim import Adam

from treaty.schema import ArraySpec, Dims, Length, state

P = TypeVar("P")
AnyShape = Float32[Array, "..."]


@state
class Comma:
    # P: dim 'd_in,d_out': expected a name, an int, or an expression  [treaty]
    x: Float32[Array, "d_in,d_out"]


@state
class Spaces:
    # P: dim '*d': a leaf has one rank  [treaty]
    x: Float32[Array, "4 *d"]


@state
class AnyRank:
    # P: dim '...': a leaf has one rank: name every axis  [treaty]
    x: Float32[Array, "..."]


@state
class AnyNumberOfAxes:
    # P: dim '*b': a leaf has one rank  [treaty]
    x: Float32[Array, "*b"]


@state
class Unclear:
    # P: dim 'd?': expected a name, an int, or an expression  [treaty]
    x: Float32[Array, "d?"]


@state
class TreeDependent:
    # P: dim '?d': tree-dependent axes cannot be stored: give the axis a plain name  [treaty]
    x: Float32[Array, "?d"]


@state
class Broadcast:
    # P: dim '#d': a leaf has one shape: broadcasting axes cannot be stored  [treaty]
    x: Float32[Array, "#d"]


@state
class Unnamed:
    # P: dim '_': an axis without a name cannot be checked: give it a name  [treaty]
    x: Float32[Array, "_ d"]


@state
class Division:
    # P: dim 'd/2': expected a name, an int, or an expression  [treaty]
    x: Float32[Array, "d/2"]


@state
class Quoted:
    # P: dim 'a?': expected a name  [treaty]
    x: "Float32[Array, 'a?']"


@state
class ThroughImports:
    # P: dim 'a?': expected a name  [treaty]
    x: F32[Array, "a?"]


@state
class ThroughAnAlias:
    # P: dim '...': a leaf has one rank  [treaty]
    x: AnyShape


@state
class InsideContainers:
    # P: dim 'a?': expected a name  [treaty]
    x: dict[str, list[Float32[Array, "a?"] | None]]


@state
class InASpec:
    # P: dim 'a?': expected a name  [treaty]
    x: Annotated[Array, ArraySpec("float8_e4m3", "a?")]


@state
class UnknownDim:
    # P: Dims(d_model=...): schemas.model:Linear has no dim 'd_model'; its dims: d_in, d_out  [treaty]
    layer: Annotated[Linear, Dims(d_model="d")]


@state
class UnknownDimOfItems:
    # P: Dims(d_in=...): schemas.model:Block has no dim 'd_in'; its dims: d_model  [treaty]
    layers: Annotated[tuple[Block, ...], Length("n"), Dims(d_in="d")]


@state
class UnknownDimOfAGeneric:
    # P: Dims(d=...): schemas.optim:Adam[schemas.model:Linear] has no dim 'd'; its dims: d_in, d_out  [treaty]
    opt: Annotated[Adam[Linear], Dims(d="d_model")]


@state
class BadTie:
    # P: dim 'd model': expected a name  [treaty]
    layer: Annotated[Linear, Dims(d_in="d model")]


@state
class TieOfANumber:
    # P: Dims(d_in=-1): a size cannot be negative  [treaty]
    layer: Annotated[Linear, Dims(d_in=-1)]


@state
class TieOfAScalar:
    # P: Dims(d='n'): only a class has dims to tie, not int; remove Dims(...)  [treaty]
    step: Annotated[int, Dims(d="n")]


@state
class TwoFieldsOfOneName:
    params: Linear
    # P: dims d_in, d_out: params has them too, untied; to share them, write params: Annotated[Linear, Dims(...)]  [treaty]
    opt: Adam[Linear]


@state
class ANameOfTheClassItself:
    x: Float32[Array, "d_model"]
    # P: dim d_model: ANameOfTheClassItself has it too, untied; to share it, write blocks: Annotated[list[Block], Dims(...)]  [treaty]
    blocks: list[Block]


@state
class SharedAndOwn:
    own: Annotated[Linear, Dims(None)]
    # P: Dims(..., None): write ... to share the dims that are not named, or None to share none  [treaty]
    both: Annotated[Linear, Dims(..., None)]


@state
# P: dim 'a' cannot be known from the data  [treaty]
# P: dim 'b' cannot be known from the data  [treaty]
class Unsolvable:
    x: Float32[Array, "a*b"]


@state
class TwoDefinitions:
    x: Float32[Array, "d=3"]
    # P: dim d=4: d is 3 on another axis; give one of them another label  [treaty]
    y: Float32[Array, "d=4"]


@state
class Inside(Generic[P]):
    value: P
    # P: dim 'a?': expected a name  [treaty]
    other: Float32[Array, "a?"]
