"""A network of linen with batch norm and dropout, whose train state has more than params."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training import train_state


class Residual(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        y = nn.Conv(self.width, (3, 3), use_bias=False)(x)
        y = nn.relu(nn.BatchNorm(use_running_average=not train)(y))
        y = nn.Conv(self.width, (3, 3), use_bias=False)(y)
        y = nn.BatchNorm(use_running_average=not train)(y)
        if x.shape != y.shape:
            x = nn.Conv(self.width, (1, 1), use_bias=False, name="project")(x)
        return nn.relu(x + y)


class ResNet(nn.Module):
    width: int
    classes: int

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = True) -> jax.Array:
        x = nn.Conv(self.width, (3, 3), name="stem")(x)
        for stage, width in enumerate((self.width, 2 * self.width)):
            x = Residual(width, name=f"stage_{stage}_a")(x, train)
            x = Residual(width, name=f"stage_{stage}_b")(x, train)
        x = nn.Dropout(0.1, deterministic=not train)(x.mean((1, 2)))
        return nn.Dense(self.classes, name="head")(x)


class ResNetState(train_state.TrainState):  # type: ignore[no-untyped-call]
    batch_stats: Any
    dropout_rng: jax.Array


def make_state(width: int = 8, classes: int = 10) -> Any:
    model = ResNet(width, classes)
    rng = jax.random.key(0)
    variables = model.init({"params": rng, "dropout": rng}, jnp.zeros((1, 8, 8, 3)))
    tx = optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(0.1, momentum=0.9, nesterov=True))
    create: Any = ResNetState.create  # which has no types
    return create(
        apply_fn=model.apply,
        params=variables["params"],
        tx=tx,
        batch_stats=variables["batch_stats"],
        dropout_rng=jax.random.key(1),
    )
