"""Python values in JSON: what JSON has no word for is an object of one key that says what it is."""

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from treaty.runtime._errors import CorruptCheckpointError, InvalidArgumentError, show_path
from treaty.schema.dtypes import BY_NAME


def encode(value: Any, path: Sequence[str]) -> Any:
    if isinstance(value, np.generic) and value.dtype.name in BY_NAME:
        return {"numpy": [value.dtype.name, base64.b64encode(value.tobytes()).decode()]}
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is complex:
        return {"complex": [repr(value.real), repr(value.imag)]}
    if type(value) is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if type(value) is dict and not value:
        return {"dict": {}}
    kind = type(value).__name__
    raise InvalidArgumentError(f"expected an array or a Python value, got {kind} at {show_path(tuple(path))}")


def decode(value: Any, path: Sequence[str]) -> Any:
    if value is None or type(value) in (bool, int, str, float):
        return value
    try:
        ((kind, inner),) = value.items()
        return _KINDS[kind](inner)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise CorruptCheckpointError(f"expected a value, got {str(value)[:80]} at {show_path(tuple(path))}") from None


def as_float(value: Any) -> float | None:
    """A number of JSON; None of all else, and of integers that are larger than any float."""
    if type(value) not in (int, float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _numpy(inner: Any) -> Any:
    name, text = inner
    (scalar,) = np.frombuffer(base64.b64decode(text, validate=True), BY_NAME[name].numpy)
    return scalar


def _complex(inner: Any) -> complex:
    real, imag = inner
    return complex(float(real), float(imag))


def _empty(inner: Any) -> dict[str, Any]:
    if inner != {}:
        raise ValueError
    return {}


_KINDS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "numpy": _numpy,
    "float": float,
    "complex": _complex,
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "dict": _empty,
}
