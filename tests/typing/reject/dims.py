"""Dims that cannot be parsed, tied or known. To mypy they are text: all of this needs the plugin."""

from typing import Annotated, Generic, TypeVar

from jax import Array
from jaxtyping import Float32

from schemas.aliases import F32
from schemas.model import Block, Linear
from schemas.optim import Adam
from treaty.schema import ArraySpec, Dims, Length, state

P = TypeVar("P")
Commas = Float32[Array, "d_in,d_out"]


@state
class Comma:
    x: Float32[Array, "d_in,d_out"]  # P: dim 'd_in,d_out': expected a name, an int, or an expression of them with + - * // and parentheses  [treaty]


@state
class Spaces:
    x: Float32[Array, "4 *d"]  # P: dim '*d': a leaf has one rank: name every axis (and write a product without spaces, as 4*d)  [treaty]


@state
class AnyRank:
    x: Float32[Array, "..."]  # P: dim '...': a leaf has one rank: name every axis  [treaty]


@state
class AnyNumberOfAxes:
    x: Float32[Array, "*b"]  # P: dim '*b': a leaf has one rank: name every axis (and write a product without spaces, as 4*d)  [treaty]


@state
class Unclear:
    x: Float32[Array, "d?"]  # P: dim 'd?': expected a name, an int, or an expression of them with + - * // and parentheses  [treaty]


@state
class TreeDependent:
    x: Float32[Array, "?d"]  # P: dim '?d': tree-dependent axes cannot be stored: give the axis a plain name  [treaty]


@state
class Broadcast:
    x: Float32[Array, "#d"]  # P: dim '#d': a leaf has one shape: broadcasting axes cannot be stored  [treaty]


@state
class Unnamed:
    x: Float32[Array, "_ d"]  # P: dim '_': an axis without a name cannot be checked: give it a name  [treaty]


@state
class Division:
    x: Float32[Array, "d/2"]  # P: dim 'd/2': expected a name, an int, or an expression of them with + - * // and parentheses  [treaty]


@state
class Quoted:
    x: "Float32[Array, 'a,b']"  # P: dim 'a,b': expected a name  [treaty]


@state
class ThroughImports:
    x: F32[Array, "a,b"]  # P: dim 'a,b': expected a name  [treaty]


@state
class ThroughAnAlias:
    x: Commas  # P: dim 'd_in,d_out': expected a name  [treaty]


@state
class InsideContainers:
    x: dict[str, list[Float32[Array, "a,b"] | None]]  # P: dim 'a,b': expected a name  [treaty]


@state
class InASpec:
    x: Annotated[Array, ArraySpec("float8_e4m3", "a,b")]  # P: dim 'a,b': expected a name  [treaty]


@state
class UnknownDim:
    layer: Annotated[Linear, Dims(d_model="d")]  # P: Dims(d_model=...): schemas.model:Linear has no dim 'd_model'; its dims: d_in, d_out  [treaty]


@state
class UnknownDimOfItems:
    layers: Annotated[tuple[Block, ...], Length("n"), Dims(d_in="d")]  # P: Dims(d_in=...): schemas.model:Block has no dim 'd_in'; its dims: d_model  [treaty]


@state
class UnknownDimOfAGeneric:
    opt: Annotated[Adam[Linear], Dims(d="d_model")]  # P: Dims(d=...): schemas.optim:Adam[schemas.model:Linear] has no dim 'd'; its dims: d_in, d_out  [treaty]


@state
class BadTie:
    layer: Annotated[Linear, Dims(d_in="d model")]  # P: dim 'd model': expected a name  [treaty]


@state
class TieOfANumber:
    layer: Annotated[Linear, Dims(d_in=-1)]  # P: Dims(d_in=-1): a size cannot be negative  [treaty]


@state
class TieOfAScalar:
    step: Annotated[int, Dims(d="n")]  # P: Dims(d='n'): only a class has dims to tie, not int  [treaty]


@state
class Unsolvable:  # P: dim 'a' cannot be known from the data; it must stand alone (or as a*a+b) on some axis, Length or Dims  [treaty]  # P: dim 'b' cannot be known from the data  [treaty]
    x: Float32[Array, "a*b"]


@state
class TwoDefinitions:
    x: Float32[Array, "d=3"]
    y: Float32[Array, "d=4"]  # P: dim d=4: d is 3 on another axis  [treaty]


@state
class Inside(Generic[P]):
    value: P
    other: Float32[Array, "a,b"]  # P: dim 'a,b': expected a name  [treaty]
