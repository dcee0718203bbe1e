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
    # P: a static field must be hashable, got float32[d]; expected a Python scalar, str, enum, or a tuple of them  [treaty]
    x: Float32[Array, "d"] = field(static=True)


@state
class StaticList:
    # P: a static field must be hashable, got list[int]  [treaty]
    x: list[int] = field(static=True)


@state
class KeyIsANumber:
    # E: No overload variant of "field" matches argument type "int"  [call-overload]
    x: int = field(key=3)


@state
class SameKey:
    x: int
    # P: key 'x' is already the key of x; write field(key=...) with another  [treaty]
    y: int = field(key="x")


@state
class Underscore:
    # P: '_x' starts with an underscore; rename it and write field(key='_x')  [treaty]
    _x: int


@state
class DefaultOfAnotherType:
    # E: Incompatible types in assignment (expression has type "str", variable has type "int")  [assignment]
    x: int = field(default="0")


@state
class UnknownOption:
    # E: Unexpected keyword argument "name" for overloaded function "field"  [call-overload]
    x: int = field(name="y")


@state
class NotGivenToInit:
    # P: a field with init=False cannot be restored; remove init=False, and give the field a default if it needs one  [treaty]
    x: int = attrs.field(init=False)


# E: No overload variant of "state" matches argument type "str"  [call-overload]
@state(version="2")
class VersionIsText:
    x: int


@state
class UnknownDtype:
    # P: ArraySpec('float33'): unknown dtype; known: bool, int1, int2  [treaty]
    x: Annotated[Array, ArraySpec("float33", "d")]


@state
class UnknownKeyImplementation:
    # P: ArraySpec('key<mine>'): unknown dtype; known: bool, int1, int2  [treaty]
    x: Annotated[Array, ArraySpec("key<mine>", "")]


@state
class KeyOnTheHost:
    # P: key<rbg>: PRNG keys are jax arrays  [treaty]
    x: Annotated[np.ndarray, ArraySpec("key<rbg>", "")]


@state
class SpecOfAnInt:
    # P: array type int: expected jax.Array or np.ndarray  [treaty]
    x: Annotated[int, ArraySpec("float32", "d")]


@state
class LengthOfAClass:
    # P: Length('n'): expected list[X], tuple[X, ...] or dict[K, X], got schemas.model:Linear  [treaty]
    x: Annotated[Linear, Length("n")]


@state
class LengthOfAFixedTuple:
    # P: Length('2'): expected list[X], tuple[X, ...] or dict[K, X], got tuple[int, int]  [treaty]
    x: Annotated[tuple[int, int], Length(2)]


@state
class LengthOfNothing:
    # P: Length(): Length.__init__() missing 1 required positional argument: 'size'  [treaty]
    x: Annotated[list[int], Length()]


@state
class LengthIsAFloat:
    # P: Length(2.5): expected a name, an int or an expression, got float  [treaty]
    x: Annotated[list[int], Length(2.5)]


@state
class NoteWithoutArguments:
    # P: Annotated[..., Dims]: write Dims(...) with its arguments  [treaty]
    x: Annotated[Linear, Dims]


@state
class UnknownField:
    # P: Fields(count=...): Moments has no field 'count'; its fields: mean, seen  [treaty]
    x: Annotated[Moments, Fields(mean=Float32[Array, "d"], count=int)]


@state
class MissingField:
    # P: Fields(...): no type for seen of Moments; add seen=...  [treaty]
    x: Annotated[Moments, Fields(mean=Float32[Array, "d"])]


@state
class FieldThatCannotBeStored:
    # P: cannot store set[int]; expected an array  [treaty]
    x: Annotated[Moments, Fields(mean=Float32[Array, "d"], seen=set[int])]


@state
class FieldsOfAPlainClass:
    # P: Fields(...): expected a NamedTuple, dataclass or attrs class, got Plain  [treaty]
    x: Annotated[Plain, Fields(x=int)]


@state
class PartialOfNothing:
    # P: Partial: write Annotated[Partial, Fields(func=the_function  [treaty]
    x: Annotated[Partial, Fields(args=(Int32[Array, ""],))]
