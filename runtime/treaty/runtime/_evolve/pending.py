"""Arrays as a migration sees them: like those of numpy, but not read before it asks for their elements.

A function that passes a leaf on as it got it leaves it where it is stored.
"""

import operator
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from treaty.runtime._lazy import HostArray, LazyArray
from treaty.runtime._trees import map_leaves


class PendingArray(NDArrayOperatorsMixin):
    """An array of the checkpoint. Shape and dtype are known; anything else reads it, once. It cannot be written to."""

    __slots__ = ("_read", "stored")

    def __init__(self, stored: LazyArray) -> None:
        self.stored = stored
        self._read: HostArray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.stored.shape

    @property
    def dtype(self) -> "np.dtype[Any]":
        return self.stored.dtype

    @property
    def ndim(self) -> int:
        return len(self.stored.shape)

    @property
    def size(self) -> int:
        return self.stored.size

    @property
    def nbytes(self) -> int:
        return self.stored.nbytes

    def __len__(self) -> int:
        return self.shape[0] if self.shape else len(self._array())  # which says what it has none of

    def _array(self) -> HostArray:
        if self._read is None:
            self._read = np.asarray(self.stored.read()).view()
            self._read.flags.writeable = (
                False  # as of a mapped file: what was stored is passed on, not what became of it
            )
        return self._read

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        return np.array(self._array(), dtype, copy=copy)

    def __jax_array__(self) -> Any:
        return jnp.asarray(self._array())

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(*_deeply(inputs), **_deeply(options))

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return function(*_deeply(args), **_deeply(options))

    def __getitem__(self, index: Any) -> Any:
        return self._array()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array()[index] = _opened(value)  # which says that it is read-only

    def __contains__(self, value: Any) -> bool:
        return value in self._array()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols that are not numpy's own: copying, pickling, JAX
            raise AttributeError(name)
        return getattr(self._array(), name)

    def __float__(self) -> float:
        return float(self._array())

    def __int__(self) -> int:
        return int(self._array())

    def __complex__(self) -> complex:
        return complex(self._array())

    def __index__(self) -> int:
        return operator.index(self._array())

    def __format__(self, spec: str) -> str:
        return format(self._array(), spec) if spec else str(self)

    def __bool__(self) -> bool:
        return bool(self._array())

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)}, not read yet>" if self._read is None else repr(self._read)


def pending(tree: Any) -> Any:
    """A state dict for a migration: a copy, whose stored arrays are not read yet."""
    return map_leaves(lambda leaf: PendingArray(leaf) if isinstance(leaf, LazyArray) else leaf, tree)


def settled(tree: Any) -> Any:
    """What a migration gave: arrays that it passed on are lazy again."""
    return map_leaves(lambda leaf: leaf.stored if isinstance(leaf, PendingArray) else leaf, tree)


def _opened(value: Any) -> Any:
    return value._array() if isinstance(value, PendingArray) else value


def _deeply(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_deeply, value))
    if isinstance(value, dict):
        return {key: _deeply(one) for key, one in value.items()}
    return _opened(value)
