"""Where arrays live: moving them to another sharding, and to the host."""

import math
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, Sharding

from treaty.runtime._eformer.dtype_names import AnyDType, dtype_named
from treaty.runtime._errors import InvalidArgumentError
from treaty.runtime._state.arrays import is_key, write_key

_T = TypeVar("_T")
_spec: Any = PartitionSpec  # untyped in JAX


def reshard(x: _T, target_sharding: Sharding | PartitionSpec) -> _T:
    """Every array of `x` laid out as the target says; a dim that its mesh axes do not divide is replicated."""
    return cast(_T, jax.tree.map(lambda leaf: _move(leaf, target_sharding), x))


def to_host(x: Any, float_dtype: AnyDType | None, mesh: Mesh, cpu_offload: bool) -> Any:
    """`x` replicated over the mesh, or with `cpu_offload` over the CPU devices, and cast where it is floating."""
    if isinstance(x, jax.Array):
        x = reshard(x, NamedSharding(mesh, _spec()))
        x = _on_cpu(x) if cpu_offload else x
    if not float_dtype:
        return x
    if not hasattr(x, "dtype"):
        raise InvalidArgumentError(f"expected an array to cast to {float_dtype}, got {type(x).__name__}")
    return x.astype(dtype_named(float_dtype)) if jnp.issubdtype(x.dtype, jnp.floating) else x


def _move(leaf: Any, target: Sharding | PartitionSpec) -> Any:
    sharding = _fitted(target, np.shape(leaf))
    if sharding.is_fully_addressable or not getattr(leaf, "is_fully_addressable", True):
        return jax.device_put(leaf, sharding)
    # From one process to a mesh of several JAX takes host values only, and sees to it that they agree.
    if is_key(leaf):
        key = write_key(leaf)
        return jax.random.wrap_key_data(jax.device_put(np.asarray(key["data"]), sharding), impl=key["impl"])
    return jax.device_put(np.asarray(leaf), sharding)


def _fitted(target: Sharding | PartitionSpec, shape: tuple[int, ...]) -> Sharding:
    """The target with only the spec entries that this shape can follow."""
    if isinstance(target, NamedSharding):
        mesh, spec, memory_kind = target.mesh, target.spec, target.memory_kind
    elif isinstance(target, PartitionSpec):
        mesh, spec, memory_kind = jax.sharding.get_mesh(), target, None
        if mesh.empty:
            raise InvalidArgumentError(f"expected a mesh for {spec}; pass a NamedSharding, or call under jax.set_mesh")
    else:
        return target
    kept = [entry if _divides(size, entry, mesh) else None for size, entry in zip(shape, spec, strict=False)]
    return NamedSharding(mesh, _spec(*kept), memory_kind=memory_kind)


def _divides(size: int, entry: Any, mesh: Mesh | AbstractMesh) -> bool:
    names = (entry,) if isinstance(entry, str) else entry
    if not isinstance(names, tuple) or not all(name in mesh.shape for name in names):
        return False
    return bool(size % math.prod(mesh.shape[name] for name in names) == 0)


def _on_cpu(replicated: jax.Array) -> jax.Array:
    """A copy on every CPU device, made from this process's own: no other backend need reach across processes."""
    sharding = NamedSharding(Mesh(np.array(jax.devices("cpu")), ("cpu",)), _spec())
    local = replicated.addressable_data(0)
    copies = [jax.device_put(local, device) for device in jax.local_devices(backend="cpu")]
    return jax.make_array_from_single_device_arrays(replicated.shape, sharding, copies)
