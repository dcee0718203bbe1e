"""Python values: the check of one value each. Generated code and `explain` both use these, so they cannot differ."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import numpy as np

from treaty.runtime._state.arrays import Misfit

_T = TypeVar("_T")


def _exactly(kind: type[_T]) -> Callable[[object], _T]:
    """The check of a value of just this type: True is not an int."""

    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise Misfit
        return value

    return check


boolean = _exactly(bool)
integer = _exactly(int)
text = _exactly(str)
binary = _exactly(bytes)


def floating(value: object) -> float:
    """A float; an int that a float holds exactly stands for one, as in Python's own type system."""
    if type(value) is float:
        return value
    if type(value) is not int or abs(value) >= 1 << 1023 or float(value) != value:
        raise Misfit
    return float(value)


def complex_number(value: object) -> complex:
    return value if type(value) is complex else complex(floating(value))


def none(value: _T) -> _T:
    if value is not None:
        raise Misfit
    return value


CHECKS: Final[Mapping[str, Callable[[object], object]]] = {
    "bool": boolean,
    "int": integer,
    "float": floating,
    "complex": complex_number,
    "str": text,
    "bytes": binary,
    "none": none,
}


def same_static(one: Any, other: Any) -> bool:
    """Whether two static values are equal, with NaN equal to NaN, also inside tuples and their states."""
    if isinstance(one, (tuple, list)) and type(one) is type(other):
        return len(one) == len(other) and all(map(same_static, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_static(one[key], other[key]) for key in one)
    if isinstance(one, (complex, np.complexfloating)) and isinstance(other, (complex, np.complexfloating)):
        return same_static(float(one.real), float(other.real)) and same_static(float(one.imag), float(other.imag))
    return one is other or bool(one == other) or bool(one != one and other != other)
