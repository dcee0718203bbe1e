"""Strict equality: types, dtypes, shapes and the bits of arrays, all through a tree or an object."""

import math
from typing import Any

import attrs
import jax
import jax.numpy as jnp
import numpy as np


def same(got: Any, expected: Any, path: str = "$") -> None:
    """Fail at the first difference. Arrays compare by their bytes on the host; a jax.Array counts as numpy's."""
    if isinstance(expected, jax.Array) and jnp.issubdtype(expected.dtype, jax.dtypes.prng_key):
        assert got.dtype == expected.dtype, path
        return same(jax.random.key_data(got), jax.random.key_data(expected), path)
    if isinstance(expected, (np.ndarray, jax.Array)):
        assert isinstance(got, (np.ndarray, jax.Array)), (path, type(got))
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), path
        assert np.asarray(got).tobytes() == np.asarray(expected).tobytes(), path
        return None
    assert type(got) is type(expected), (path, type(got), type(expected))
    if attrs.has(type(expected)):
        for one in attrs.fields(type(expected)):
            same(getattr(got, one.name), getattr(expected, one.name), f"{path}.{one.name}")
    elif isinstance(expected, dict):
        assert list(got) == list(expected), path
        assert list(map(type, got)) == list(map(type, expected)), path
        for key in expected:
            same(got[key], expected[key], f"{path}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected), path
        for index, (one, other) in enumerate(zip(got, expected, strict=True)):
            same(one, other, f"{path}[{index}]")
    elif isinstance(expected, np.generic):
        assert (got.dtype, got.tobytes()) == (expected.dtype, expected.tobytes()), path
    elif isinstance(expected, complex):
        same([got.real, got.imag], [expected.real, expected.imag], path)
    elif isinstance(expected, float):
        assert (
            math.isnan(got)
            if math.isnan(expected)
            else (got, math.copysign(1, got))
            == (
                expected,
                math.copysign(1, expected),
            )
        ), path
    else:
        assert got == expected, path
    return None
