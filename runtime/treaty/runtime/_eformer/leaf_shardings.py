"""Where each leaf of a restored tree goes: rules, then shardings, then replicated, as eformer decides it."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import jax
import jax.numpy as jnp
from attrs import frozen
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from treaty.runtime._errors import LeafError
from treaty.runtime.formats.eformer.index import Entry
from treaty.runtime.formats.eformer.leaf_kinds import on_host
from treaty.runtime.formats.eformer.leaf_paths import Keys, keys_of

_EVERYWHERE: Final = cast(Any, PartitionSpec)()  # its constructor is untyped

Rules = Sequence[tuple[str, PartitionSpec]]


@frozen
class LeafPlace:
    """No `sharding`: the leaf stays on the host. `then` is the caller's own function, applied after reading."""

    sharding: Sharding | None
    then: Callable[[Any], Any] | None = None


def places(entries: Sequence[Entry], mesh: Mesh | None, rules: Rules | None, shardings: Any) -> list[LeafPlace]:
    if rules is not None:
        found = [_by_rule(entry, mesh, rules) for entry in entries]
    else:
        asked = _by_keys(shardings)
        found = [_asked(entry, mesh, asked) for entry in entries]
    for entry, place in zip(entries, found, strict=True):
        _check(entry, place)
    return found


def _by_rule(entry: Entry, mesh: Mesh | None, rules: Rules) -> LeafPlace:
    name = entry.name.replace(".", "/")
    if _never_on_a_device(entry):
        return LeafPlace(None)
    if mesh is None:
        raise LeafError("expected a mesh for partition_rules, got None")
    for rule, spec in rules:
        if re.search(rule, name) is not None:
            stays = on_host(entry) and not any(spec)
            return LeafPlace(None if stays else NamedSharding(mesh, spec))
    raise LeafError(f"Partition rule not found for param: {name}")


def _asked(entry: Entry, mesh: Mesh | None, asked: dict[Keys | str, Any]) -> LeafPlace:
    if _never_on_a_device(entry):
        return LeafPlace(None)
    sharding = asked.get(entry.keys, asked.get(entry.name))
    if isinstance(sharding, PartitionSpec) and mesh is not None:
        return LeafPlace(NamedSharding(mesh, sharding))
    if isinstance(sharding, Sharding):
        return LeafPlace(sharding)
    if sharding is not None and not callable(sharding):
        raise LeafError(f"expected a sharding, a PartitionSpec with a mesh or a function, got {sharding!r} at {entry}")
    if on_host(entry):
        return LeafPlace(None, sharding)
    if sharding is None and mesh is not None and len(mesh.axis_names) > 1:
        raise LeafError(
            f"No sharding specified for {entry.name!r} on multi-axis mesh. Provide 'shardings' or 'partition_rules'."
        )
    return LeafPlace(_replicated(mesh), sharding)


def _by_keys(shardings: Any) -> dict[Keys | str, Any]:
    """A tree by its keys, and by its dotted names: eformer takes `{"a.b": …}` for a leaf `b` in `a`."""
    leaves = jax.tree_util.tree_flatten_with_path(shardings, is_leaf=callable)[0]
    by_keys: dict[Keys | str, Any] = {keys_of(path): sharding for path, sharding in leaves}
    return {".".join(keys): sharding for keys, sharding in by_keys.items()} | by_keys


def _never_on_a_device(entry: Entry) -> bool:
    return on_host(entry) and entry.leaf != "numpy"


def _replicated(mesh: Mesh | None) -> Sharding:
    return SingleDeviceSharding(jax.local_devices()[0]) if mesh is None else NamedSharding(mesh, _EVERYWHERE)


def _check(entry: Entry, place: LeafPlace) -> None:
    """What JAX would refuse in the middle of reading, or not at all."""
    if place.sharding is None:
        return
    shape, sharding = list(entry.shape), place.sharding
    if isinstance(sharding, NamedSharding) and len(sharding.spec) > len(shape):
        raise LeafError(f"expected a sharding for {shape}, got {sharding.spec} at {entry}")
    try:
        sharding.shard_shape(entry.shape)
    except ValueError as error:
        raise LeafError(f"expected a sharding for {shape}, got {error} at {entry}") from error
    kept = jax.dtypes.canonicalize_dtype(jnp.dtype(entry.dtype))
    if kept != jnp.dtype(entry.dtype):
        raise LeafError(f"expected {entry.dtype}, but JAX would make it {kept} at {entry}: set jax_enable_x64")
