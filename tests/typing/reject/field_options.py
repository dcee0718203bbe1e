"""Mistakes in `field(...)`, in names, and in what stands beside a type in Annotated."""

from typing import Annotated, NamedTuple

import attrs
import numpy as np
from jax import Array
from jax.tree_util import Partial
from jaxtyping import Float32, Int32

from schemas.model import Linear
from treaty.schema import ArraySpec, Dims, Fields, Length, field, state


class Moments(NamedTuple):
    mean: Array
    seen: Array


class Plain:
    x: int


@state
class StaticArray:
    x: Float32[Array, "d"] = field(static=True)  # P: a static field must be hashable, got float32[d]; expected a Python scalar, str, enum, or a tuple of them  [treaty]


@state
class StaticList:
    x: list[int] = field(static=True)  # P: a static field must be hashable, got list[int]  [treaty]


@state
class KeyIsANumber:
    x: int = field(key=3)  # E: No overload variant of "field" matches argument type "int"  [call-overload]


@state
class SameKey:
    x: int
    y: int = field(key="x")  # P: key 'x' is already the key of x; keys must differ  [treaty]


@state
class Underscore:
    _x: int  # P: '_x' starts with an underscore; rename it and write field(key='_x')  [treaty]


@state
class DefaultOfAnotherType:
    x: int = field(default="0")  # E: [call-overload]


@state
class UnknownOption:
    x: int = field(name="y")  # E: [call-overload]


@state
class NotGivenToInit:
    x: int = attrs.field(init=False)  # P: init=False cannot be restored; drop it, or give the field a default  [treaty]


@state(version="2")  # E: [call-overload]
class VersionIsText:
    x: int


@state
class UnknownDtype:
    x: Annotated[Array, ArraySpec("float33", "d")]  # P: ArraySpec('float33'): unknown dtype; known: bool, int1, int2  [treaty]


@state
class UnknownKeyImplementation:
    x: Annotated[Array, ArraySpec("key<mine>", "")]  # P: ArraySpec('key<mine>'): unknown dtype; known: bool, int1, int2  [treaty]


@state
class KeyOnTheHost:
    x: Annotated[np.ndarray, ArraySpec("key<rbg>", "")]  # P: key<rbg>: PRNG keys are jax arrays; write Annotated[Array, ...]  [treaty]


@state
class SpecOfAnInt:
    x: Annotated[int, ArraySpec("float32", "d")]  # P: array type int: expected jax.Array or np.ndarray  [treaty]


@state
class LengthOfAClass:
    x: Annotated[Linear, Length("n")]  # P: Length('n'): expected list[X], tuple[X, ...] or dict[K, X], got schemas.model:Linear  [treaty]


@state
class LengthOfAFixedTuple:
    x: Annotated[tuple[int, int], Length(2)]  # P: Length('2'): expected list[X], tuple[X, ...] or dict[K, X], got tuple[int, int]  [treaty]


@state
class LengthOfNothing:
    x: Annotated[list[int], Length()]  # P: Length(): Length.__init__() missing 1 required positional argument: 'size'  [treaty]


@state
class LengthIsAFloat:
    x: Annotated[list[int], Length(2.5)]  # P: Length(2.5): expected a name, an int or an expression, got float  [treaty]


@state
class NoteWithoutArguments:
    x: Annotated[Linear, Dims]  # P: Annotated[..., Dims]: write Dims(...) with its arguments  [treaty]


@state
class UnknownField:
    x: Annotated[Moments, Fields(mean=Float32[Array, "d"], count=int)]  # P: Fields(count=...): Moments has mean, seen  [treaty]


@state
class MissingField:
    x: Annotated[Moments, Fields(mean=Float32[Array, "d"])]  # P: Fields(...): no type for seen of Moments  [treaty]


@state
class FieldThatCannotBeStored:
    x: Annotated[Moments, Fields(mean=Float32[Array, "d"], seen=set[int])]  # P: cannot store set[int]; expected an array  [treaty]


@state
class FieldsOfAPlainClass:
    x: Annotated[Plain, Fields(x=int)]  # P: Fields(...): expected a NamedTuple, dataclass or attrs class, got Plain  [treaty]


@state
class PartialOfNothing:
    x: Annotated[Partial, Fields(args=(Int32[Array, ""],))]  # P: Partial: write Annotated[Partial, Fields(func=the_function  [treaty]
