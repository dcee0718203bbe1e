"""Shapes of arrays that an optimizer's init makes of the shape of a param, as adafactor does: init is asked, for one such param."""

import hashlib
import importlib
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from typing import Any, Final

from treaty.schema import ir
from treaty.schema._errors import SchemaError
from treaty.schema.dtypes import BY_NAME

# Between powers of two, where optimizers begin to treat arrays in other ways.
_SAMPLED: Final = tuple(3 << number for number in range(12))


def fitted_shape(type: ir.Fitted, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the array for a param of this shape."""
    module, _, name = type.init.partition(":")
    try:
        make: Any = reduce(getattr, name.split("."), importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise SchemaError(f"expected {type.init}, whose optimizer says the shape of an array, got {error}") from None
    return shape_from(make, type.at, shape, type.param)


def shape_from(make: Callable[[], Any], at: str, shape: tuple[int, ...], dtype: str) -> tuple[int, ...]:
    """The same where the function is at hand. `at` is the place of the array in the state of one such param."""
    try:
        return shapes(make, tuple(map(int, shape)), dtype)[at]
    except KeyError:
        raise SchemaError(
            f"expected an array at ${at} of the state of {make!r} for {dtype}{list(shape)}, got none"
        ) from None


def sample(make: Callable[[], Any], at: str, rank: int, dtype: str) -> str:
    """What stands for the shapes of the array for params of many sizes: another text is another optimizer."""
    params = [
        tuple(_SAMPLED[(first + step * axis) % len(_SAMPLED)] for axis in range(rank))
        for first in range(len(_SAMPLED))
        for step in (0, 5)
    ]
    found = [shape_from(make, at, shape, dtype) for shape in params]
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


@lru_cache(maxsize=4096)
def shapes(make: Callable[[], Any], shape: tuple[int, ...], dtype: str) -> Mapping[str, tuple[int, ...]]:
    """Of every array in the state of one param, by its place."""
    import jax

    param: Any = importlib.import_module("jax").ShapeDtypeStruct(shape, BY_NAME[dtype].numpy)
    found = jax.tree_util.tree_flatten_with_path(jax.eval_shape(make().init, param))[0]
    return {jax.tree_util.keystr(path): leaf.shape for path, leaf in found}
