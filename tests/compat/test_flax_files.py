"""Files that real Flax programs write restore into Treaty classes, and what Treaty writes is the same to the byte."""

from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen, nnx, serialization
from flax.training.train_state import TrainState as FlaxTrainState
from jax import Array
from jaxtyping import Float32

from treaty.generator import load
from treaty.runtime import from_bytes, restore, save, to_bytes
from treaty.schema import Dims, field, state
from treaty.schema.library.optax import AdamW, EmptyState


@state
class Dense:
    """In the order of jax.tree.map, which sorts keys: so are all trees that an optimizer has touched."""

    bias: Float32[Array, "d_out"]
    kernel: Float32[Array, "d_in d_out"]


@state
class LayerNorm:
    bias: Float32[Array, "d"]
    scale: Float32[Array, "d"]


@state
class Params:
    hidden: Annotated[Dense, Dims("d_in", d_out="d")] = field(key="Dense_0")
    out: Annotated[Dense, Dims("d_out", d_in="d")] = field(key="Dense_1")
    norm: Annotated[LayerNorm, Dims("d")] = field(key="LayerNorm_0")


@state
class TrainState:
    step: int
    params: Annotated[Params, Dims(...)]
    opt_state: Annotated[AdamW[Params, EmptyState], Dims(...)]


@state
class BatchNorm:
    bias: Float32[Array, "d"]
    mean: Float32[Array, "d"]
    scale: Float32[Array, "d"]
    var: Float32[Array, "d"]


@state
class Network:
    bn: Annotated[BatchNorm, Dims("d")]
    linear: Annotated[Dense, Dims(d_out="d")]


load(TrainState)
load(Network)


class MLP(linen.Module):
    @linen.compact
    def __call__(self, x: Array) -> Any:
        hidden = linen.Dense(8)(x)
        return linen.Dense(2)(linen.LayerNorm()(hidden))


def trained() -> Any:
    model: Any = MLP()
    x = jnp.arange(8.0).reshape(2, 4)
    params = model.init(jax.random.key(0), x)["params"]
    create: Any = FlaxTrainState.create
    train = create(apply_fn=model.apply, params=params, tx=optax.adamw(1e-2))
    grads = jax.grad(lambda params: jnp.square(model.apply({"params": params}, x)).sum())(train.params)
    return train.apply_gradients(grads=grads)


def test_a_flax_train_state_restores_and_goes_back_to_the_byte(tmp_path: Path) -> None:
    train = trained()
    (tmp_path / "flax.msgpack").write_bytes(serialization.to_bytes(train))
    ours = restore(tmp_path / "flax.msgpack", TrainState)
    assert ours.step == 1
    assert isinstance(ours.params.norm.scale, Array)
    assert np.array_equal(ours.opt_state.adam.mu.out.kernel, train.opt_state[0].mu["Dense_1"]["kernel"])

    save(tmp_path / "ours.msgpack", ours)
    assert (tmp_path / "ours.msgpack").read_bytes() == (tmp_path / "flax.msgpack").read_bytes()
    again = serialization.from_bytes(train, (tmp_path / "ours.msgpack").read_bytes())
    assert jax.tree.all(jax.tree.map(np.array_equal, again, train))


def test_linen_params_restore_and_go_back_to_the_byte() -> None:
    params = trained().params
    data = serialization.to_bytes(params)
    ours = from_bytes(Params, data)
    assert to_bytes(ours) == data
    assert jax.tree.all(jax.tree.map(np.array_equal, serialization.from_bytes(params, to_bytes(ours)), params))


def test_an_nnx_state_restores_and_goes_back_to_the_byte() -> None:
    class Model(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.linear = nnx.Linear(4, 8, rngs=rngs)
            self.bn = nnx.BatchNorm(8, rngs=rngs)

    pure = nnx.to_pure_dict(nnx.state(Model(nnx.Rngs(0))))
    data = serialization.to_bytes(jax.tree.map(lambda leaf: leaf, pure))
    ours = from_bytes(Network, data)
    assert np.array_equal(ours.linear.kernel, pure["linear"]["kernel"])
    assert to_bytes(ours) == data
