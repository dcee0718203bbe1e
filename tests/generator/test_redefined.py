"""Classes that a later cell of a notebook defines again: `load` serves the new one, and the old one goes on to work."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from treaty.generator import load
from treaty.runtime import CodecError, StateMismatchError, abstract, from_state_dict, to_state_dict
from treaty.schema.library.optax import AdamState

LINEAR = """
@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
"""
WIDER = LINEAR + '    bias: Float32[Array, "d_out"]\n'
MODEL = """
@state
class Model:
    layer: Annotated[Linear, Dims(...)]
"""
IMPORTS = """
from typing import Annotated
from jax import Array
from jaxtyping import Float32
from treaty.schema import Dims, state
"""
STATE_OF: Any = AdamState  # of classes that are no types to mypy


class Notebook:
    """Cells that are run one after the other in one module."""

    def __init__(self, module: ModuleType) -> None:
        self.scope: Any = vars(module)
        self.run(IMPORTS)

    def run(self, cell: str) -> Any:
        exec(cell, self.scope)
        return self.scope.get("Model" if cell is MODEL else "Linear")


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    name = "cells_of_a_notebook"
    sys.modules[name] = module = ModuleType(name)
    yield Notebook(module)
    del sys.modules[name]


def kernel() -> Any:
    return jnp.ones((2, 3))


@pytest.mark.parametrize("again", [LINEAR, WIDER])
def test_old_and_new_each_have_their_own_code(notebook: Notebook, again: str) -> None:
    old = notebook.run(LINEAR)
    load(old)
    before = old(kernel=kernel())
    new = notebook.run(again)
    load(new)
    after = new(kernel=kernel(), **({"bias": jnp.ones(3)} if again is WIDER else {}))

    for cls, one in ((old, before), (new, after)):
        assert type(from_state_dict(cls, to_state_dict(one))) is cls
        assert type(jax.tree.map(lambda leaf: leaf + 1, one)) is cls
        assert type(abstract(cls, d_in=1, d_out=1)) is cls


def test_a_class_that_names_the_old_one_says_what_to_do(notebook: Notebook) -> None:
    notebook.run(LINEAR)
    model = notebook.run(MODEL)
    load(model)
    new = notebook.run(LINEAR)
    load(new)

    with pytest.raises(StateMismatchError) as raised:
        to_state_dict(model(layer=new(kernel=kernel())))
    assert str(raised.value) == (
        "expected cells_of_a_notebook.Linear, got an instance of cells_of_a_notebook.Linear, which was defined again since; "
        "run what declares the class around it again, too at $"
    )

    again = notebook.run(MODEL)
    load(again)
    assert type(from_state_dict(again, to_state_dict(again(layer=new(kernel=kernel())))).layer) is new


def test_generic_code_never_serves_another_definition(notebook: Notebook) -> None:
    old = notebook.run(LINEAR)
    load(STATE_OF[old])
    new = notebook.run(LINEAR)
    with pytest.raises(CodecError, match="for another definition of its classes; call "):
        abstract(STATE_OF[new], d_in=1, d_out=1)

    load(STATE_OF[new])
    assert type(abstract(STATE_OF[new], d_in=1, d_out=1).mu) is new
    with pytest.raises(CodecError, match="for another definition"):
        abstract(STATE_OF[old], d_in=1, d_out=1)


def test_without_load_the_message_names_it(notebook: Notebook) -> None:
    load(notebook.run(LINEAR))
    new = notebook.run(WIDER)
    with pytest.raises(CodecError, match="cells_of_a_notebook:Linear"):
        jax.tree.leaves(new(kernel=kernel(), bias=jnp.ones(3)))
