# Needs the plugin: to plain mypy a state class is a dataclass, which attrs.evolve and attrs.fields refuse.
"""attrs' own functions on state classes."""

import attrs
from jax import Array
from schemas.model import Linear, TrainState
from schemas.optim import Adam


def evolved(x: Array, linear: Linear, train: TrainState, adam: Adam[Linear]) -> None:
    reveal_type(attrs.evolve(linear, bias=x))  # Linear
    reveal_type(attrs.evolve(train, lr=3e-4, note="cooled"))  # TrainState
    reveal_type(attrs.evolve(adam, mu=linear))  # Adam[Linear]


def listed() -> None:
    reveal_type(attrs.fields(Linear).kernel)  # Attribute[Array]; others: Any
    reveal_type(attrs.fields(TrainState).lr.name)  # str; others: Any
