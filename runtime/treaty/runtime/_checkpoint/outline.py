"""The outline of a checkpoint of any format: its nodes by key, and what each leaf would be declared as."""

from typing import TYPE_CHECKING, Any, Final

from treaty.runtime._storage.paths import AnyPath
from treaty.runtime.formats.table import reading
from treaty.schema import ir
from treaty.schema.dims import Dim, Int
from treaty.schema.dtypes import BY_NAME
from treaty.schema.outline import OpaqueLeaf, Outline, OutlineLeaf, OutlineNode, counted, is_counted

if TYPE_CHECKING:
    from treaty.runtime._restore.source import Source

_SCALARS: Final = (bool, int, float, complex, str, bytes)


def outline_of_checkpoint(path: AnyPath) -> Outline:
    """What lies at a path. Reads no arrays."""
    return reading(path, _of_source)


def _of_source(source: "Source") -> Outline:
    return _outline(source.settled(), "", source.is_exact)


def _outline(value: Any, shown: str, is_exact: bool) -> Outline:
    import numpy as np

    from treaty.runtime._trees import is_stored_array

    if isinstance(value, dict):
        return _node(value, shown, is_exact)
    if value is None:
        return None
    if type(value) in _SCALARS:
        return OutlineLeaf(ir.Scalar(type(value).__name__))
    if isinstance(value, np.generic) and str(value.dtype) in BY_NAME:
        return OutlineLeaf(ir.NumpyScalar(str(value.dtype)))
    if is_stored_array(value) and str(value.dtype) in BY_NAME:
        return OutlineLeaf(ir.Array(str(value.dtype), _dims(value.shape)))
    return OpaqueLeaf(f"{type(value).__name__} {getattr(value, 'dtype', '')}".strip(), is_function=False)


def _node(value: dict[str, Any], shown: str, is_exact: bool) -> Outline:
    from treaty.runtime._trees import is_stored_key

    if is_stored_key(value):
        return OutlineLeaf(ir.Key(_dims(value["data"].shape[:-1])))
    children = {key: _outline(child, f"{shown}[{key!r}]", is_exact) for key, child in counted(value).items()}
    is_list = is_counted(children)
    if (
        is_list and not is_exact
    ):  # None among the members of a list is more often what had no leaves, as states of optax have none
        empty = OutlineNode("dict", "builtins:dict", {})
        children = {key: empty if child is None else child for key, child in children.items()}
    return OutlineNode("list" if is_list else "dict", "builtins:dict", children, shown)


def _dims(shape: tuple[int, ...]) -> tuple[Dim, ...]:
    return tuple(Dim(Int(size)) for size in shape)
