"""Building a class from arrays that are still on disk: all that is wrong is said before any of them is read."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import jax
import ml_dtypes
import numpy as np
from attrs import frozen

from treaty.runtime._errors import StateMismatchError
from treaty.runtime._lazy import LazyArray
from treaty.runtime._state.registry import codec_of_class, codec_of_instance
from treaty.runtime._state.state_dict import Into, explain, from_state_dict
from treaty.runtime._uninterrupted import uninterrupted
from treaty.runtime._workers import Workers
from treaty.schema import Schema, ir
from treaty.schema.dtypes import BY_NAME

_T = TypeVar("_T")
_IN_FLIGHT: Final = 256 * 2**20  # bytes being read at a time
_THREADS: Final = 8


@frozen(eq=False)
class MaybeScalar(LazyArray):
    """An array of no axes that may have been a Python value; the schema knows."""


@frozen(eq=False)
class StoredScalar(MaybeScalar):
    """A Python number that is stored as an array of no axes."""


def restore_tree(tree: dict[str, Any], target: Any, dims: Mapping[str, int] | None, into: Into | None) -> Any:
    """Build `target`, a class or template, from a state dict with lazy arrays."""
    is_class = isinstance(target, type) or hasattr(target, "__origin__")
    schema = (codec_of_class(target) if is_class else codec_of_instance(target)).schema
    fitted = fit(schema, tree)
    found = explain(target, map_arrays(shape_of, fitted), dims=dims)
    if found:
        raise StateMismatchError(found)
    return from_state_dict(target, read_arrays(fitted), dims=dims, into=into)


def fit(schema: Schema, tree: dict[str, Any], *, forgets_none: bool = False) -> Any:
    """The tree in the forms that a schema knows, where another format has no word for the difference.

    With `forgets_none`, for formats that store no None, one stands wherever the schema allows it and nothing is.
    """
    return _Fitter(schema, forgets_none).type(ir.Node(schema.root), tree)


def read_arrays(tree: Any) -> Any:
    """The tree with its arrays read, several at a time, but no more bytes than are worth holding twice."""
    lazies: list[LazyArray] = []
    map_arrays(lazies.append, tree)
    arrays = iter(_read_all(lazies))
    return map_arrays(lambda _: next(arrays), tree)


def python_scalars(tree: Any) -> Any:
    """The tree with stored scalars as the Python numbers they were; other arrays stay where they are."""
    return map_arrays(lambda leaf: leaf.read().item() if isinstance(leaf, StoredScalar) else leaf, tree)


def map_arrays(function: Callable[[LazyArray], _T], tree: Any) -> Any:
    """The tree with its lazy arrays replaced, in order."""
    if type(tree) is dict:
        return {key: map_arrays(function, value) for key, value in tree.items()}
    return function(tree) if isinstance(tree, LazyArray) else tree


@uninterrupted
def _read_all(lazies: list[LazyArray]) -> list[Any]:
    with Workers(_THREADS, "treaty-read") as workers:
        return list(_in_order(workers, lazies))


def _in_order(workers: Workers, lazies: list[LazyArray]) -> Iterator[Any]:
    reading: deque[tuple[Callable[[], Any], int]] = deque()
    for lazy in lazies:
        while reading and sum(size for _, size in reading) + lazy.nbytes > _IN_FLIGHT:
            yield reading.popleft()[0]()
        reading.append((workers.begin(lazy.read), lazy.nbytes))
    for wait, _ in reading:
        yield wait()


def shape_of(leaf: LazyArray) -> Any:
    struct: Any = jax.ShapeDtypeStruct  # its constructor has no types
    return struct(leaf.shape, leaf.dtype)


@frozen
class _Fitter:
    """A stored scalar may be a Python number, a numpy scalar or an array; an empty node may have become None or nothing;
    a NamedTuple may have been stored by position. What fits in no way is left for `explain`.
    """

    schema: Schema
    forgets_none: bool = False

    def type(self, type: ir.Type, state: Any) -> Any:
        if isinstance(type, ir.Optional):
            if state is None:
                return None
            type = type.item
        if isinstance(state, LazyArray):
            return _fit_array(type, state)
        if isinstance(type, ir.Untyped):
            return python_scalars(state)
        parts = self._parts(type, state)
        if parts is None:
            return state
        if state is None and not parts:
            return {}
        if state.__class__ is not dict:
            return state
        if isinstance(type, ir.Node) and self.schema[type.cls].kind in ("namedtuple", "foreign"):
            state = _by_name(list(parts), state)
        fitted = {key: self.type(parts[key], value) if key in parts else value for key, value in state.items()}
        for key in parts:
            if key not in fitted and self._is_empty(parts[key]):
                fitted[key] = {}
            elif key not in fitted and self.forgets_none and isinstance(parts[key], ir.Optional):
                fitted[key] = None
        return fitted

    def _parts(self, type: ir.Type, state: Any) -> dict[str, ir.Type] | None:
        """The types of what is inside, by key; None for leaves."""
        if isinstance(type, ir.Node):
            return {field.key: field.type for field in self.schema[type.cls].fields}
        if isinstance(type, ir.Tuple):
            return {str(index): item for index, item in enumerate(type.items)}
        if isinstance(type, ir.Partial):
            return {"args": type.args, "keywords": type.keywords}
        if isinstance(type, ir.Key):
            return {"impl": ir.Scalar("str"), "data": ir.Untyped()}
        if isinstance(type, (ir.Sequence, ir.Dict)):
            item = type.item if isinstance(type, ir.Sequence) else type.value
            return dict.fromkeys(state if state.__class__ is dict else (), item)
        return None

    def _is_empty(self, type: ir.Type) -> bool:
        return isinstance(type, (ir.Node, ir.Tuple)) and not self._parts(type, None)


def _fit_array(type: ir.Type, leaf: LazyArray) -> Any:
    if isinstance(type, ir.NumpyScalar) and not leaf.shape:
        return leaf.read()[()]
    if isinstance(type, ir.Key) and type.impl is not None:
        return {"impl": type.impl, "data": leaf}  # words alone: the schema says of which implementation
    if isinstance(type, ir.Untyped):
        return python_scalars(leaf)
    if isinstance(leaf, MaybeScalar) and isinstance(type, (ir.Scalar, ir.Enum)):
        return leaf.read().item()
    if isinstance(type, ir.Array) and leaf.dtype.type is np.void:
        return _as_declared(BY_NAME[type.dtype].numpy, leaf)
    return leaf


def _as_declared(dtype: "np.dtype[Any]", leaf: LazyArray) -> LazyArray:
    """Bytes without a dtype, which is what np.save makes of bfloat16 and its like."""
    if not hasattr(ml_dtypes, dtype.name) or dtype.itemsize != leaf.dtype.itemsize or leaf.dtype.fields:
        return leaf
    return LazyArray(leaf.shape, dtype, lambda: leaf.read().view(dtype))


def _by_name(names: list[str], state: dict[str, Any]) -> dict[str, Any]:
    positions = [str(index) for index in range(len(names))]
    if names == positions or set(state) != set(positions):
        return state
    return {name: state[position] for name, position in zip(names, positions, strict=True)}
