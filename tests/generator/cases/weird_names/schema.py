"""Names that could collide with Python, with builtins, or with generated code; keys that need quotes."""

from typing import Annotated, TypedDict

import attrs
from jax import Array
from jaxtyping import Float32

from treaty.schema import Dims, Length, field, state

__treaty__ = "tests.generator.cases.weird_names.expected"

Odd = TypedDict("Odd", {"class": int, "with space": Float32[Array, "in"]})


@attrs.frozen
class Plain:
    _private: int
    put: Float32[Array, "state put"]


@state
class HTTPServer:
    state: Float32[Array, "state obj x0 k"]
    obj: Float32[Array, "lambda"]
    int: float = 0.0
    dict: "bool" = False
    quoted: float = field(default=0.0, key='it\'s "quoted"\n')
    slash: float = field(default=0.0, key="a/b.c")
    empty: float = field(default=0.0, key="")


@state
class A_long_class_name_that_goes_on:
    a_long_field_name_that_goes_on: Annotated[
        tuple[HTTPServer, ...],
        Length("a_long_dim_name_that_goes_on"),
        Dims(state="a_long_dim_name_that_goes_on", obj="3"),
    ]
    plain: Plain
    odd: Odd

    @state
    class Nested:
        x: Float32[Array, "range tuple str len list"]
