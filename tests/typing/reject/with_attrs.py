# Needs the plugin: plain mypy refuses attrs.evolve and attrs.fields on every state class.
"""Mistakes in attrs' own functions on state classes."""

import attrs
from jax import Array
from schemas.model import Linear, TrainState


def evolve_with_another_type(linear: Linear) -> Linear:
    # P: Argument "bias" to "evolve" of "Linear" has incompatible type "str"; expected "Array"  [arg-type]
    return attrs.evolve(linear, bias="0")


def evolve_of_an_unknown_field(x: Array, linear: Linear) -> Linear:
    # P: Unexpected keyword argument "weight" for "evolve" of "Linear"  [call-arg]
    return attrs.evolve(linear, weight=x)


def unknown_field() -> None:
    # P: has no attribute "kernel"  [attr-defined]
    print(attrs.fields(TrainState).kernel)
