"""State dicts of formats that have no word for some differences, in the forms that a schema knows."""

from typing import Any

import ml_dtypes
import numpy as np
from attrs import frozen

from treaty.runtime._lazy import LazyArray, MaybeScalar, StoredScalar, viewed
from treaty.runtime._trees import map_leaves
from treaty.schema import Schema, ir
from treaty.schema.dtypes import BY_NAME


def fit(schema: Schema, tree: Any, *, forgets_none: bool = False) -> Any:
    """The tree in the forms that a schema knows.

    With `forgets_none`, for formats that store no None, one stands wherever the schema allows it and nothing is.
    """
    return _Fitter(schema, forgets_none).type(ir.Node(schema.root), tree)


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
    return viewed(leaf, dtype)


def _by_name(names: list[str], state: dict[str, Any]) -> dict[str, Any]:
    positions = [str(index) for index in range(len(names))]
    if names == positions or set(state) != set(positions):
        return state
    return {name: state[position] for name, position in zip(names, positions, strict=True)}
