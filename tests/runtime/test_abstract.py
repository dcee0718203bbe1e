"""Shapes without values."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.generator.cases.conditional_dims import schema as conditional
from tests.generator.cases.every_leaf import schema as every_leaf
from tests.generator.cases.train_state import schema as train_state
from treaty.runtime import abstract, from_state_dict, nbytes, to_state_dict
from treaty.schema import TreatyError


def test_shapes_and_dtypes_follow_from_the_dims() -> None:
    value = abstract(train_state.TrainState, vocab=5, d_model=2, n_layers=3)
    assert len(value.blocks) == 3
    assert (value.embed.shape, value.embed.dtype) == ((5, 2), jnp.bfloat16)
    assert value.blocks[2].down.kernel.shape == (8, 2)
    assert jnp.issubdtype(value.rng.dtype, jax.dtypes.prng_key)
    assert (value.lr, value.note) == (1e-3, "")


def test_bytes_are_those_of_the_real_thing() -> None:
    linear = train_state.Linear(kernel=jnp.zeros((3, 4)), bias=jnp.zeros(4))
    assert nbytes(train_state.Linear, d_in=3, d_out=4) == linear.kernel.nbytes + linear.bias.nbytes
    assert nbytes(train_state.TrainState, vocab=5, d_model=2, n_layers=0) == 4 + 5 * 2 * 2 + 8


def test_an_abstract_value_restores_like_any_other() -> None:
    value = abstract(train_state.TrainState, vocab=5, d_model=2, n_layers=3)
    restored = from_state_dict(value, to_state_dict(value))
    left: Any = jax.tree.structure(restored)
    assert left == jax.tree.structure(value)


def test_every_leaf_has_an_abstract_form() -> None:
    value: Any = abstract(every_leaf.Leaves, d=2)
    assert value.tiny.dtype == jnp.int4
    assert value.mode is every_leaf.Mode.EVAL
    assert (value.a_str, value.a_bytes, value.a_complex, value.nothing) == ("", b"", 0j, None)
    assert value.rbg.dtype == jax.random.key(0, impl="rbg").dtype


def test_optionals_are_there_unless_they_never_end() -> None:
    head = abstract(conditional.Head, d=2, out=3)
    assert head.kernel is not None
    assert head.scale is not None
    assert head.scale.shape == (5,)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"d_in": 1}, "needs d_out; it takes d_in, d_out"),
        ({"d_in": 1, "d_out": 2, "d": 3}, "has no dim 'd'; it takes d_in, d_out"),
        ({"d_in": -1, "d_out": 2}, "d_in=-1: expected an int of 0 or more"),
        ({"d_in": True, "d_out": 2}, "d_in=True: expected an int of 0 or more"),
    ],
)
def test_wrong_dims(dims: dict[str, int], message: str) -> None:
    with pytest.raises(TreatyError) as caught:
        abstract(train_state.Linear, **dims)
    assert message in str(caught.value)


def test_an_open_number_of_items_has_no_abstract_form() -> None:
    with pytest.raises(TreatyError, match=r"nothing says how many items \$.kids has; declare Annotated"):
        abstract(conditional.Tree, d=1)
