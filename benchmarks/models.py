"""The trees that are measured: layers of two leaves, once as Treaty classes and once as flax.struct dataclasses."""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final

import flax.struct
import jax
import numpy as np
from jax import Array
from jaxtyping import Float32

from treaty.generator import load
from treaty.schema import Dims, Length, state

wait: Final[Callable[[Any], Any]] = jax.block_until_ready  # JAX gives it no types
_D: Final = 4  # small arrays: the cost per leaf is what is measured, not the memory


@state
class Layer:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Model:
    layers: Annotated[tuple[Layer, ...], Length("n_layers"), Dims(d_in="d", d_out="d")]


@state
class Kernel:
    kernel: Float32[Array, "d_in d_out"]


@state
class Kernels:
    layers: tuple[Kernel, ...]


@state
class HostLayer:
    kernel: Float32[np.ndarray, "d_in d_out"]
    bias: Float32[np.ndarray, "d_out"]


@state
class HostModel:
    layers: Annotated[tuple[HostLayer, ...], Length("n_layers"), Dims(d_in="d", d_out="d")]


@flax.struct.dataclass
class FlaxLayer:
    kernel: Any
    bias: Any


@flax.struct.dataclass
class FlaxModel:
    layers: tuple[FlaxLayer, ...]


load(Model)
load(HostModel)
load(Kernels)


@cache
def host_leaves(nodes: int) -> list[tuple[Any, Any]]:
    """(kernel, bias) of each node as numpy arrays, all of them distinct."""
    return [(np.full((_D, _D), i, np.float32), np.full((_D,), i, np.float32)) for i in range(nodes)]


def layers(nodes: int, d: int) -> list[tuple[Any, Any]]:
    """(kernel, bias) of layers of width d."""
    random = np.random.default_rng(0)
    return [(random.random((d, d), np.float32), random.random(d, np.float32)) for _ in range(nodes)]


@cache
def device_leaves(nodes: int) -> list[tuple[Any, Any]]:
    leaves: list[tuple[Any, Any]] = wait(jax.device_put(host_leaves(nodes)))
    return leaves


def kernels(count: int, d: int) -> Kernels:
    """Square kernels alone: nothing but bytes."""
    made = wait(jax.device_put([kernel for kernel, _ in layers(count, d)]))
    return Kernels(layers=tuple(Kernel(kernel=kernel) for kernel in made))


def device_model(pairs: list[tuple[Any, Any]]) -> Model:
    return Model(layers=tuple(Layer(kernel=kernel, bias=bias) for kernel, bias in pairs))


def host_model(pairs: list[tuple[Any, Any]]) -> HostModel:
    return HostModel(layers=tuple(HostLayer(kernel=kernel, bias=bias) for kernel, bias in pairs))


def flax_model(pairs: list[tuple[Any, Any]]) -> FlaxModel:
    return FlaxModel(layers=tuple(FlaxLayer(kernel=kernel, bias=bias) for kernel, bias in pairs))


def check_same_state(ours: Any, theirs: Any) -> None:
    """Both state dicts have the same keys in the same order, and hold the very same arrays."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if list(ours) != list(theirs):
            raise AssertionError(f"the state dicts differ: {list(ours)} and {list(theirs)}")
        for key in ours:
            check_same_state(ours[key], theirs[key])
    elif ours is not theirs:
        raise AssertionError(f"the state dicts differ: {ours!r} and {theirs!r}")
