"""Fields that cannot be stored. To mypy they are types like any other: all of this needs the plugin."""

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union

import numpy as np
import numpy.typing as npt
from jax import Array
from jax.tree_util import Partial
from jaxtyping import Float, Float32, Inexact, Int, Shaped

from schemas.optim import Adam
from treaty.schema import state


class Plain:
    x: int


@dataclasses.dataclass
class Data:
    x: int


@state
class Sets:
    x: set[int]  # P: cannot store set[int]; expected an array (Float32[Array, 'a b']), a Python or numpy scalar, an enum, a state class, list, tuple, dict[str, X], X | None, or Any for an unchecked subtree  [treaty]


@state
class Functions:
    x: Callable[[int], int]  # P: cannot store Callable[[int], int]; expected an array  [treaty]


@state
class PlainClasses:
    x: Plain  # P: cannot store Plain; expected an array  [treaty]


@state
class Dataclasses:
    x: Data  # P: cannot store Data; expected an array  [treaty]


@state
class Unions:
    x: int | str  # P: union int | str: a union cannot be restored without knowing which; write X | None, or one class with optional fields  [treaty]


@state
class LongUnions:
    x: Union[Float32[Array, "a"], int, None]  # P: a union cannot be restored without knowing which  [treaty]


@state
class Mappings:
    x: Mapping[str, int]  # P: cannot store Mapping[str, int]; expected an array  [treaty]


@state
class Ordered:
    x: OrderedDict[str, int]  # P: cannot store OrderedDict[str, int]; expected an array  [treaty]


@state
class Literals:
    x: Literal["a", "b"]  # P: cannot store Literal['a', 'b']; expected an array  [treaty]


@state
class Types:
    x: type[int]  # P: cannot store type[int]; expected an array  [treaty]


@state
class BareArray:
    x: Array  # P: Array has no dtype and shape; write Float32[Array, 'd_in d_out']  [treaty]


@state
class BareNumpy:
    x: np.ndarray  # P: ndarray has no dtype and shape; write Float32[ndarray, 'd_in d_out']  [treaty]


@state
class NumpyWithParameters:
    x: np.ndarray[tuple[int, int], np.dtype[np.float32]]  # P: cannot store np.ndarray[tuple[int, int], np.dtype[np.float32]]; expected an array  [treaty]


@state
class NumpyTyping:
    x: npt.NDArray[np.float32]  # P: cannot store npt.NDArray[np.float32]; expected an array  [treaty]


@state
class AnyFloat:
    x: Float[Array, "d"]  # P: Float[...]: a stored array has one dtype; write Float32[...], BFloat16[...], …  [treaty]


@state
class AnyInt:
    x: Int[Array, "d"]  # P: Int[...]: a stored array has one dtype  [treaty]


@state
class AnyInexact:
    x: Inexact[Array, "d"]  # P: Inexact[...]: a stored array has one dtype  [treaty]


@state
class AnyDtype:
    x: Shaped[Array, "d"]  # P: Shaped[...]: a stored array has one dtype  [treaty]


@state
class ArrayOfInts:
    x: Float32[int, "d"]  # P: array type int: expected jax.Array or np.ndarray  [treaty]


@state
class FloatKeys:
    x: dict[float, int]  # P: dict[float, int]: expected dict[str, X] or dict[int, X]  [treaty]


@state
class BareList:
    x: list  # P: list has no item type; write list[...], or Any for an unchecked subtree  [treaty]  # E: Missing type arguments for generic type "list"  [type-arg]


@state
class BarePartial:
    x: Partial  # P: write Annotated[Partial, Fields(func=the_function, args=(Float32[Array, 'd'],), keywords={'scale': float})]  [treaty]


@state
class AbstractScalar:
    x: np.floating  # P: floating: expected one numpy scalar type, such as np.float32  [treaty]


@state
class Deep:
    x: tuple[int, dict[str, list[set[int] | None]]]  # P: cannot store set[int]; expected an array  [treaty]


@state
class InAnArgument:
    x: Adam[set[int]]  # P: cannot store set[int]; expected an array  [treaty]


@state
class Endless:
    x: "Endless"  # P: Endless contains itself; break the circle with X | None or list[X]  [treaty]


@state
class Fine:
    x: Any
