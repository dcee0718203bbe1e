"""`to_state_dict`, in Flax's layout."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.tree_util import Partial

from treaty.runtime._flax.nodes import is_frozen_dict, struct_fields, thawed
from treaty.runtime._flax.registry import functions_of, is_container, is_namedtuple
from treaty.runtime._state.numbering import index_keys
from treaty.runtime._state.registry import codec_of_instance, is_state_class
from treaty.runtime._state.state_dict import write_state
from treaty.runtime.formats.shared.host_array import host_array

_Write: TypeAlias = Callable[[Any], Any]


def to_state_dict(target: Any) -> Any:
    """The state of a value as nested dicts with str keys; a value of a type that nobody registered stays as it is."""
    return _Writer(on_host=False)(target)


def to_host_state(target: Any) -> Any:
    """`to_state_dict` for what is written next, with jax arrays as numpy's."""
    return _Writer(on_host=True)(target)


def write_state_class(target: Any) -> Any:
    return write_state(codec_of_instance(target), target)


def _host_view(array: Any) -> Any:
    """As `host_array`, but several times as fast for an array in this host's memory, which numpy can share."""
    try:
        aval = array.aval
        return np.ndarray(aval.shape, aval.dtype, array)
    except (BufferError, TypeError):  # spread, on another device, in another layout, of a dtype of JAX's own, traced
        return host_array(array)


class _Writer(dict[type, _Write | None]):
    """One call of `to_state_dict`. As a dict it remembers which function writes each type; None means a leaf."""

    def __init__(self, *, on_host: bool) -> None:
        super().__init__()
        self._on_host = on_host

    def __call__(self, target: Any) -> Any:
        write = self[type(target)]
        return target if write is None else write(target)

    def __missing__(self, cls: type) -> _Write | None:
        self[cls] = write = self._writer_of(cls)
        return write

    def _writer_of(self, cls: type) -> _Write | None:
        if is_namedtuple(cls):
            return self._namedtuple
        if is_container(cls):
            writers: dict[type, _Write] = {
                dict: self._dict,
                list: self._list,
                tuple: self._list,
                Partial: self._partial,
            }
            return writers[cls]
        if (fields := struct_fields(cls)) is not None:
            return lambda target: {name: self(getattr(target, name)) for name in fields}
        if is_frozen_dict(cls):
            return lambda target: self._dict(thawed(target))
        if served := functions_of(cls):
            return served.write
        if is_state_class(cls):
            return write_state_class
        return _host_view if self._on_host and issubclass(cls, jax.Array) else None

    def _dict(self, target: Mapping[Any, Any]) -> dict[str, Any]:
        state = {}
        for key, value in target.items():  # a comprehension would cost small dicts a call more
            write = self[type(value)]
            state[key if type(key) is str else str(key)] = value if write is None else write(value)
        if len(state) != len(target):
            given = ", ".join(repr(key)[:40] for key in target)
            raise ValueError(f"Dict keys do not have a unique string representation: {set(state)} vs given: {given}")
        return state

    def _list(self, target: list[Any] | tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(index_keys(len(target)), map(self, target), strict=False))

    def _namedtuple(self, target: Any) -> dict[str, Any]:
        return {name: self(getattr(target, name)) for name in target._fields}

    def _partial(self, target: Partial) -> dict[str, Any]:
        return {"args": self(target.args), "keywords": self(target.keywords)}
