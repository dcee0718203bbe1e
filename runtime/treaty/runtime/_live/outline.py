"""The outline of a live tree, its nodes by the keys that `from_live` finds them by; and a tree like it, filled."""

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import jax
import numpy as np
from attrs import frozen

from treaty.runtime._live.forms import PLAIN, Absent, Form, FormNode, LeafSlot, StaticValue, form_of, slots
from treaty.runtime._live.frameworks import hidden, modules, rebuilt
from treaty.runtime._live.report import flatten
from treaty.runtime._state.arrays import is_key
from treaty.runtime._state.explain import describe
from treaty.schema import ir
from treaty.schema.dims import Dim, Int
from treaty.schema.dtypes import BY_NAME
from treaty.schema.modules import can_be_imported, symbol_of
from treaty.schema.outline import (
    Container,
    OpaqueLeaf,
    Outline,
    OutlineLeaf,
    OutlineNode,
    SharedLeaf,
    counted,
    is_counted,
)

_NNX_HIDDEN: Final = "JAX does not look into a module that is declared with pytree=False: return nnx.state(module)"


def outline_of(tree: object) -> Outline:
    """The outline of a tree, whose arrays may be traced or abstract."""
    leaves, structure, again = flatten(tree)
    form = form_of(tree, structure)
    shown = {slot.index: slot.shown for slot in slots(form)}
    return _Drawing(leaves, {index: shown.get(first, "") for index, first in again.items()}, modules()).of(form)


@frozen
class _Drawing:
    leaves: Sequence[Any]
    shared: Mapping[int, str]  # leaves that stand elsewhere, too, and where
    modules: tuple[type, ...]

    def of(self, form: Form | Absent) -> Outline:
        if isinstance(form, FormNode):
            children = {key: self.of(child) for key, child in counted(form).items()}
            container = self._container(form.owner, children)
            return OutlineNode(container, symbol_of(type(form.owner)), children, form.shown)
        if isinstance(form, LeafSlot):
            where = self.shared.get(form.index)
            return outline_leaf(self.leaves[form.index]) if where is None else SharedLeaf(where)
        return outline_leaf(form.value) if isinstance(form, StaticValue) else None

    def _container(self, owner: object, keys: Iterable[str]) -> Container:
        if isinstance(owner, tuple):
            return "namedtuple" if hasattr(owner, "_fields") else "tuple"
        if isinstance(owner, list) or is_counted(keys):
            return "list"
        if isinstance(owner, Mapping):
            return "dict"
        return "module" if isinstance(owner, self.modules) else "record"


def outline_leaf(value: Any) -> OutlineLeaf | OpaqueLeaf | None:
    """A leaf with the type that it would be declared with."""
    if value is None:
        return None
    if type(value) is int and -(2**31) <= value < 2**31:
        return OutlineLeaf(ir.Array("int32", ()), python="int")
    if type(value) is float:
        return OutlineLeaf(ir.Scalar("float"), python="float")
    if type(value) in PLAIN:
        return OutlineLeaf(ir.Scalar(type(value).__name__))
    if isinstance(value, enum.Enum) and can_be_imported(symbol_of(type(value)), type(value)):
        return OutlineLeaf(ir.Enum(symbol_of(type(value)), tuple(type(value).__members__)))
    if isinstance(value, hidden()):
        return OpaqueLeaf(describe(value), False, _NNX_HIDDEN)
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return OpaqueLeaf(describe(value), callable(value))
    dims = tuple(Dim(Int(int(size))) for size in value.shape)
    if is_key(value):
        return OutlineLeaf(ir.Key(dims))
    if str(value.dtype) not in BY_NAME:
        return OpaqueLeaf(describe(value), False)
    is_abstract = isinstance(value, (jax.ShapeDtypeStruct, jax.core.Tracer))
    if isinstance(value, np.generic):
        return OutlineLeaf(ir.NumpyScalar(str(value.dtype)))
    type_ = ir.Array(str(value.dtype), dims, host=isinstance(value, np.ndarray))
    return OutlineLeaf(type_, 0 if is_abstract else int(value.nbytes))


def filled(tree: Any) -> Any:
    """A tree like one that was traced, with arrays of small numbers. Variables that stand in two places stay one."""
    leaves, structure, again = flatten(tree)
    made = [_made_up(leaf, seed) if isinstance(leaf, jax.core.Tracer) else leaf for seed, leaf in enumerate(leaves)]
    for index, first in again.items():
        made[index] = made[first]
    return rebuilt(tree, iter(made), {}) if again else jax.tree.unflatten(structure, made)


def _made_up(like: Any, seed: int) -> jax.Array:
    if is_key(like):
        abstract: Any = jax.ShapeDtypeStruct
        words = jax.eval_shape(jax.random.key_data, abstract(like.shape, like.dtype))
        made: jax.Array = jax.random.wrap_key_data(_made_up(words, seed), impl=jax.random.key_impl(like))
        return made
    counted = np.arange(seed, seed + math.prod(like.shape)) % 101
    found: jax.Array = jax.device_put(
        (counted % 2 if like.dtype == bool else counted).astype(like.dtype).reshape(like.shape)
    )
    return found
