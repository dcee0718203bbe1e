"""Mistakes in `field(...)`, in names, and in what stands beside a type in Annotated."""

from typing import Annotated, NamedTuple

import attrs
import numpy as np
from jax import Array
from jax.tree_util import Partial
from jaxtyping import Float32, Int32
from schemas.language import Mode
from schemas.model import Linear

from treaty.schema import ArraySpec, Dims, Fields, Keys, Length, field, state


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
    # P: default: expected int, got '0'; write a default that fits, or none  [treaty]
    x: int = field(default="0")


@state
class UnknownOption:
    # E: Unexpected keyword argument "name" for overloaded function "field"  [call-overload]
    x: int = field(name="y")


@state
class NotGivenToInit:
    # P: a field with init=False cannot be restored; remove init=False, and give the field a default if it needs one  [treaty]
    x: int = attrs.field(init=False)


# E: Unexpected keyword argument "version" for overloaded function "state"  [call-overload]
# E: No overload variant of "state" matches argument type "int"  [call-overload]
@state(version=2)
class Version:
    x: int


# E: No overload variant of "state" matches argument type "str"  [call-overload]
@state(reserved="y")
class ReservedIsText:
    x: int


@state
class OptionsAreText:
    # E: No overload variant of "field" matches argument type "str"  [call-overload]
    x: int = field(aliases="y")
    # E: Argument "cast_from" to "field" has incompatible type "tuple[int]"; expected "tuple[str, ...] | list[str]"  [arg-type]
    z: Float32[Array, "d"] = field(cast_from=(32,))


@state(reserved=("gone", "b"))
class KeysOfTwoMeanings:
    # P: alias 'a' is its own key; an alias is a key that no field has any more: remove it  [treaty]
    # P: alias 'c' is the key of other; an alias is a key that no field has any more: remove it  [treaty]
    a: int = field(aliases=("a", "c"))
    # P: key 'b' is reserved by KeysOfTwoMeanings: earlier checkpoints hold another thing under it; write field(key=...) with another  [treaty]
    b: int
    # P: alias 'was' stands there twice; write it once  [treaty]
    other: int = field(key="c", aliases=["was", "was"])
    # P: alias 'was' is one of other too; write it once  [treaty]
    # P: alias 'gone' is reserved by KeysOfTwoMeanings, which drops what is stored under it; remove it from one of them  [treaty]
    d: int = field(aliases=("was", "gone"))


@state
class Casts:
    # P: field(cast_from=...): expected a field of arrays, got int; remove it, or write it on the field that is the array  [treaty]
    a: int = field(cast_from=("int8",))
    # P: field(cast_from=...): unknown dtype 'float33'; known: bool, int1, int2  [treaty]
    b: Float32[Array, "d"] = field(cast_from=("float33",))
    # P: field(cast_from=...): 'float32' is the dtype that the field has; remove it  [treaty]
    c: list[Float32[Array, "d"]] = field(cast_from=("float64", "float32"))
    # P: field(cast_from=...): 'int8' stands there twice; write it once  [treaty]
    d: Float32[Array, "d"] = field(cast_from=("int8", "int8"))


@state
class Defaults:
    # P: default: expected int, got True; write a default that fits, or none  [treaty]
    a: int = True
    # P: default: expected int, got True at $.b[1]; write a default that fits, or none  [treaty]
    b: tuple[int, ...] = field(default=(1, True))
    # E: Incompatible types in assignment (expression has type "None", variable has type "Array")  [assignment]
    # P: default: expected float32[d], got None; write X | None as its type, or another default  [treaty]
    c: Float32[Array, "d"] = field(default=None)
    # P: default: expected list[int], got []; write a default that fits, or none  [treaty]
    d: Annotated[list[int], Length(2)] = field(default=[])
    # E: Incompatible types in assignment (expression has type "int", variable has type "Array")  [assignment]
    # P: default: expected int32[], got 0; write a default that fits, or none  [treaty]
    e: Int32[Array, ""] = 0
    # E: Incompatible types in assignment (expression has type "str", variable has type "Mode")  [assignment]
    # P: default: expected a member of Mode, got 'TRAIN'; write a default that fits, or none  [treaty]
    f: Mode = field(default="TRAIN")
    # E: Incompatible types in assignment (expression has type "None", variable has type "Linear")  [assignment]
    # P: default: expected an instance of Linear, got None; write X | None as its type, or another default  [treaty]
    g: Linear = None


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


Blocks = Annotated[tuple[Linear, ...], Keys("block_{i}")]


@state
class KeysWithoutPlaceholder:
    # P: Keys('block'): expected a name with one placeholder and no other braces: {i} for numbers, {key} for the keys of a dict[str, X]; write Keys('block_{i}')  [treaty]
    x: Annotated[list[Linear], Keys("block")]


@state
class KeysWithTwoPlaceholders:
    # P: Keys('{i}_{i}'): expected a name with one placeholder and no other braces  [treaty]
    x: Annotated[list[Linear], Keys("{i}_{i}")]


@state
class KeysWithoutArguments:
    # P: Annotated[..., Keys]: write Keys(...) with its arguments  [treaty]
    x: Annotated[list[Linear], Keys]


@state
class KeysOfOneValue:
    # P: Keys('a_{i}'): expected a list, a tuple or a dict, got schemas.model:Linear  [treaty]
    a: Annotated[Linear, Keys("a_{i}")]
    # P: Keys('b_{i}'): expected a list, a tuple or a dict, got list[float] | None; None could not be told from no items  [treaty]
    b: Annotated[list[float] | None, Keys("b_{i}")]
    # P: Keys('c_{i}'): expected a list, a tuple or a dict, got float32[d]  [treaty]
    c: Annotated[Array, ArraySpec("float32", "d"), Keys("c_{i}")]


@state
class KeysOfAnotherKind:
    # P: Keys('a_{key}'): the items of list[int] have numbers; write Keys('a_{i}')  [treaty]
    a: Annotated[list[int], Keys("a_{key}")]
    # P: Keys('b_{key}'): the items of dict[int, int] have numbers; write Keys('b_{i}')  [treaty]
    b: Annotated[dict[int, int], Keys("b_{key}")]
    # P: Keys('c_{i}'): the keys of dict[str, int] are text; write Keys('c_{key}')  [treaty]
    c: Annotated[dict[str, int], Keys("c_{i}")]


@state
class KeysTwice:
    # P: Keys('block_{i}') and Keys('layer_{i}'): items have one name each; write it once  [treaty]
    a: Annotated[Blocks, Keys("layer_{i}")]


@state
class KeysInside:
    # P: Keys('block_{i}'): items lie beside the keys of a class; write it on a field itself, as in Annotated[tuple[X, ...], Keys('block_{i}')]  [treaty]
    a: dict[str, Blocks]
    # P: Keys('block_{i}'): items lie beside the keys of a class; write it on a field itself  [treaty]
    b: Annotated[list[int], Keys("block_{i}")] | None


@state
class KeysAndAKey:
    # P: field(key='blocks') beside Keys('block_{i}'): the items have keys of their own; remove key=  [treaty]
    a: Annotated[list[int], Keys("block_{i}")] = field(key="blocks")
    # P: field(static=True) beside Keys('step_{i}'): what is static is one value; remove one of them  [treaty]
    b: Annotated[tuple[int, ...], Keys("step_{i}")] = field(static=True)


@state(reserved=("block_7",))
class KeysOfTwoFields:
    # P: Keys('block_{i}') stands for 'block_0' too, which is the key of first; write Keys(...) with another name  [treaty]
    # P: Keys('block_{i}') stands for 'block_1' too, which is an alias of second; write Keys(...) with another name  [treaty]
    # P: Keys('block_{i}') stands for 'block_7' too, which is reserved by KeysOfTwoFields; write Keys(...) with another name  [treaty]
    blocks: Blocks
    first: int = field(key="block_0")
    second: int = field(aliases=("block_1",))
    # P: Keys('{key}_0') stands for 'block_0' too, which is the key of first; write Keys(...) with another name  [treaty]
    # P: Keys('{key}_0') and Keys('block_{i}') of blocks stand for a key that is the same; write Keys(...) with another name  [treaty]
    others: Annotated[dict[str, int], Keys("{key}_0")]


@state
class SameKeys:
    a: Annotated[list[int], Keys("block_{i}")]
    # P: key 'block_{i}' is already the key of a; write Keys(...) with another  [treaty]
    b: Annotated[tuple[float, ...], Keys("block_{i}")]
