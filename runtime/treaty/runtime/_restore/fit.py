"""State dicts of formats that have no word for some differences, in the forms that a schema knows."""

from typing import Any, assert_never

import ml_dtypes
import numpy as np
from attrs import frozen

from treaty.runtime._lazy import LazyArray, MaybeScalar, StoredScalar, viewed
from treaty.runtime._trees import map_leaves
from treaty.schema import Schema, ir
from treaty.schema.dtypes import BY_NAME


def fit(schema: Schema, tree: Any, *, forgets_none: bool = False, forgets_scalars: bool = False) -> Any:
    """The tree in the forms that a schema knows.

    With `forgets_none`, for formats that store no None, one stands wherever the schema allows it and nothing is. With
    `forgets_scalars`, a number is what the schema says if its dtype holds it.
    """
    return _Fitter(schema, forgets_none, forgets_scalars).type(ir.Node(schema.root), tree)


def python_scalars(tree: Any) -> Any:
    """The tree with stored scalars as the Python numbers they were; other arrays stay where they are."""
    return map_leaves(lambda leaf: leaf.read().item() if isinstance(leaf, StoredScalar) else leaf, tree)


@frozen
class _Fitter:
    """A stored scalar may be a Python number, a numpy scalar or an array; an empty node may have become None or nothing;
    a NamedTuple may have been stored by position. What fits in no way is left for `explain`.
    """

    schema: Schema
    forgets_none: bool = False
    forgets_scalars: bool = False

    def type(self, type: ir.Type, state: Any) -> Any:
        if isinstance(type, ir.Optional):
            if state is None:
                return None
            type = type.item
        if isinstance(state, LazyArray):
            return _fit_array(type, state)
        if self.forgets_scalars and state.__class__ in (int, float, bool):
            return _fit_number(type, state)
        if isinstance(type, ir.Untyped):
            return python_scalars(state)
        parts = ir.parts(self.schema, type, state if state.__class__ is dict else ())
        if parts is None:
            return state
        if state is None and not parts:
            return {}
        if state.__class__ is not dict:
            return state
        if isinstance(type, ir.Node) and self.schema[type.cls].kind in ("namedtuple", "foreign"):
            state = _by_name(list(parts), state)
        fitted = {
            key: self.type(parts[key], value) if key in parts else python_scalars(value) for key, value in state.items()
        }
        for key in parts:
            if key not in fitted and self._is_empty(parts[key]):
                fitted[key] = {}
            elif key not in fitted and self.forgets_none and isinstance(parts[key], ir.Optional):
                fitted[key] = None
        return fitted

    def _is_empty(self, type: ir.Type) -> bool:
        return isinstance(type, (ir.Node, ir.Tuple)) and not ir.parts(self.schema.gathered, type)


def _fit_array(type: ir.Type, leaf: LazyArray) -> Any:
    """What an array stands for where something of a type is declared."""
    if isinstance(type, ir.NumpyScalar):
        return leaf if leaf.shape else leaf.read()[()]
    if isinstance(type, ir.Key):  # words alone: the schema says of which implementation
        return leaf if type.impl is None else {"impl": type.impl, "data": leaf}
    if isinstance(type, (ir.Untyped, ir.Node)):  # a class is not an array: it is told as what it was
        return python_scalars(leaf)
    if isinstance(type, (ir.Scalar, ir.Enum)):
        return leaf.read().item() if isinstance(leaf, MaybeScalar) else leaf
    if isinstance(type, (ir.Array, ir.Fitted)):
        return _as_declared(BY_NAME[type.dtype].numpy, leaf) if leaf.dtype.type is np.void else leaf
    if isinstance(type, (ir.Sequence, ir.Tuple, ir.Dict, ir.Optional, ir.Partial)):
        return leaf
    assert_never(type)


def _fit_number(type: ir.Type, number: Any) -> Any:
    """A number that was a numpy scalar before a format that tells them not apart, if its dtype holds it."""
    if not isinstance(type, ir.NumpyScalar) and not (isinstance(type, ir.Array) and not type.dims):
        return number
    dtype = BY_NAME[type.dtype].numpy
    if (dtype == np.bool_) != isinstance(number, bool):
        return number
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(np.asarray(number).astype(dtype) if isinstance(number, float) else dtype.type(number))
    except (OverflowError, TypeError, ValueError):
        return number
    if found != number and number == number:  # NaN is no loss
        return number
    return found[()] if isinstance(type, ir.NumpyScalar) else found


def _as_declared(dtype: "np.dtype[Any]", leaf: LazyArray) -> LazyArray:
    """Bytes without a dtype, which is what np.save makes of bfloat16 and its like."""
    if not hasattr(ml_dtypes, dtype.name) or dtype.itemsize != leaf.dtype.itemsize or leaf.dtype.fields:
        return leaf
    return viewed(leaf, dtype)


def _by_name(names: list[str], state: dict[str, Any]) -> dict[str, Any]:
    positions = [str(index) for index in range(len(names))]
    if names == positions or set(state) != set(positions):
        return state
    return {name: state[position] for name, position in zip(names, positions, strict=True)}
