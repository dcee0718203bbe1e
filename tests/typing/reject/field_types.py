"""Fields that cannot be stored. To mypy they are types like any other: all of this needs the plugin."""

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union

import numpy as np
import numpy.typing as npt
from jax import Array
from jax.tree_util import Partial
from jaxtyping import Float, Float32, Inexact, Int, Key, Shaped
from schemas.optim import Adam

from treaty.schema import state


class Plain:
    x: int


@dataclasses.dataclass
class Data:
    x: int


@state
class Sets:
    # P: cannot store set[int]; expected an array (Float32[Array, 'a b']), a Python or numpy scalar, an enum, a state class, list, tuple, dict[str, X], X | None, or Any for an unchecked subtree  [treaty]
    x: set[int]


@state
class Functions:
    # P: cannot store Callable[[int], int]; expected an array  [treaty]
    x: Callable[[int], int]


@state
class PlainClasses:
    # P: cannot store Plain; expected an array  [treaty]
    x: Plain


@state
class Dataclasses:
    # P: cannot store Data; expected an array  [treaty]
    x: Data


@state
class Unions:
    # P: union int | str: a union cannot be restored without knowing which; write X | None, or one class with optional fields  [treaty]
    x: int | str


@state
class LongUnions:
    # P: a union cannot be restored without knowing which  [treaty]
    x: Union[Float32[Array, "a"], int, None]  # noqa: UP007 - this spelling is a row of its own


@state
class Mappings:
    # P: cannot store Mapping[str, int]; expected an array  [treaty]
    x: Mapping[str, int]


@state
class Ordered:
    # P: cannot store OrderedDict[str, int]; expected an array  [treaty]
    x: OrderedDict[str, int]


@state
class Literals:
    # P: cannot store Literal['a', 'b']; expected an array  [treaty]
    x: Literal["a", "b"]


@state
class Types:
    # P: cannot store type[int]; expected an array  [treaty]
    x: type[int]


@state
class BareArray:
    # P: Array has no dtype and shape; write Float32[Array, 'd_in d_out']  [treaty]
    x: Array


@state
class BareNumpy:
    # P: ndarray has no dtype and shape; write Float32[ndarray, 'd_in d_out']  [treaty]
    x: np.ndarray


@state
class NumpyWithParameters:
    # P: cannot store np.ndarray[tuple[int, int], np.dtype[np.float32]]; expected an array  [treaty]
    x: np.ndarray[tuple[int, int], np.dtype[np.float32]]


@state
class NumpyTyping:
    # P: expected an array (Float32[Array, 'a b']), a Python or numpy scalar  [treaty]
    x: npt.NDArray[np.float32]


@state
class AnyFloat:
    # P: Float[...]: a stored array has one dtype; write Float32[...], BFloat16[...], …  [treaty]
    x: Float[Array, "d"]


@state
class AnyInt:
    # P: Int[...]: a stored array has one dtype  [treaty]
    x: Int[Array, "d"]


@state
class AnyInexact:
    # P: Inexact[...]: a stored array has one dtype  [treaty]
    x: Inexact[Array, "d"]


@state
class AnyDtype:
    # P: Shaped[...]: a stored array has one dtype  [treaty]
    x: Shaped[Array, "d"]


@state
class ArrayOfInts:
    # P: array type int: expected jax.Array or np.ndarray  [treaty]
    x: Float32[int, "d"]


@state
class NumpyKeys:
    # P: key: PRNG keys are jax arrays  [treaty]
    x: Key[np.ndarray, ""]


@state
class FloatKeys:
    # P: dict[float, int]: expected dict[str, X] or dict[int, X]  [treaty]
    x: dict[float, int]


@state
class BareList:
    # P: list has no item type; write list[...], or Any for an unchecked subtree  [treaty]
    # E: Missing type arguments for generic type "list"  [type-arg]
    x: list


@state
class BarePartial:
    # P: write Annotated[Partial, Fields(func=the_function, args=(Float32[Array, 'd'],), keywords={'scale': float})]  [treaty]
    x: Partial


@state
class AbstractScalar:
    # P: floating: expected one numpy scalar type, such as np.float32  [treaty]
    x: np.floating


@state
class Deep:
    # P: cannot store set[int]; expected an array  [treaty]
    x: tuple[int, dict[str, list[set[int] | None]]]


@state
class InAnArgument:
    # P: cannot store set[int]; expected an array  [treaty]
    x: Adam[set[int]]


@state
class Endless:
    # P: Endless contains itself; break the circle with X | None or list[X]  [treaty]
    x: "Endless"


@state
class Fine:
    x: Any
