"""Files restored whole, in part, or onto a mesh."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.sharding import Mesh

from treaty.runtime import _bytes
from treaty.runtime._errors import StateMismatchError, show_keys
from treaty.runtime._sharding.shardings import Rules, placement
from treaty.runtime._state.at import parse_at
from treaty.runtime._state.registry import codec_of_class, codec_of_instance
from treaty.runtime._state.state_dict import Into, check_arguments, explain, from_state_dict
from treaty.runtime.formats import msgpack
from treaty.schema import TreatyError


def restore(
    path: str,
    cls: Any,
    *,
    safetensors: bool,
    at: str | Sequence[str] | None,
    dims: Mapping[str, int] | None,
    mesh: Mesh | None,
    rules: Rules | None,
    shardings: Any,
    into: Into | None,
) -> Any:
    if at is None and mesh is None and rules is None and shardings is None:
        return _whole(path, cls, safetensors, dims, into)
    is_class = isinstance(cls, type) or hasattr(cls, "__origin__")
    codec = codec_of_class(cls) if is_class else codec_of_instance(cls)
    check_arguments(codec, dims or {}, into)
    state = _selected(_tree(path, safetensors), at, path)
    found = explain(cls, state, dims=dims)
    if found:
        raise StateMismatchError(found)
    placed = placement(codec.schema, state, mesh, rules, shardings, into)
    arrays = jax.device_put([_get(state, keys) for keys in placed], list(placed.values()))
    for keys, array in zip(placed, arrays, strict=True):
        _get(state, keys[:-1])[keys[-1]] = array
    return from_state_dict(cls, state, dims=dims, into=into)


def _whole(path: str, cls: Any, safetensors: bool, dims: Mapping[str, int] | None, into: Into | None) -> Any:
    if not safetensors:
        return _bytes.restore_file(path, cls, dims=dims, into=into)
    from treaty.runtime.formats import safetensors as format

    return format.restore(path, cls, dims=dims, into=into)


def _tree(path: str, safetensors: bool) -> Any:
    if not safetensors:
        return msgpack.read_file(path)
    from treaty.runtime.formats import safetensors as format

    return format.load(path)[0]


def _selected(state: Any, at: str | Sequence[str] | None, where: str) -> Any:
    if at is None:
        return state
    if isinstance(at, str):
        return _below(state, parse_at(at), where)
    kept: dict[str, Any] = {}
    for keys in map(parse_at, at):
        node = kept
        for key in keys[:-1]:
            node = node.setdefault(key, {})
        node[keys[-1]] = _below(state, keys, where)
    return kept


def _below(state: Any, keys: Sequence[str], where: str) -> Any:
    for depth, key in enumerate(keys):
        if type(state) is not dict or key not in state:
            there = ", ".join(map(str, list(state)[:12])) if type(state) is dict else "a leaf"
            raise TreatyError(f"expected {show_keys(keys)} in {where}, got {there} at {show_keys(keys[:depth])}")
        state = state[key]
    return state


def _get(state: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        state = state[key]
    return state
