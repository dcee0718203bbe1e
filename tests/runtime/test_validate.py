"""`validate`: a state is checked by its class at any moment, by the attributes of its arrays alone."""

import functools
from pathlib import Path
from typing import Any

import attrs
import jax
import jax.numpy as jnp
import pytest
from jax import Array

from tests.schema.declared import Adam, Block, Everything, block, everything, linear
from treaty.generator import load
from treaty.runtime import StateMismatchError, abstract, save, to_state_dict, validate
from treaty.schema import TreatyError

load(Everything)

evolve: Any = attrs.evolve  # mypy takes state classes for dataclasses


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"step": jnp.ones((2, 2))}, ["expected int32[], got float32[2, 2] at $.step"]),
    (
        {"step": 3, "an_int": jnp.int32(1)},
        ["expected int32[], got int 3 at $.step", "expected int, got int32[] at $.an_int"],
    ),
    ({"rng": jax.random.key(0)}, ["expected key[2], got uint32[2] at $.rng"]),
    ({"rbg": jax.random.key(0)}, ["expected key<rbg>[], got key<threefry2x32> at $.rbg"]),
    ({"rbg": jnp.zeros(4, jnp.uint32)}, ["expected key<rbg>[], got uint32[4] at $.rbg"]),
    (
        {"blocks": (block(2), block(2), evolve(block(2), down=linear(8, 3)))},
        [
            "expected float32[d_in=8, d_out=2], got float32[8, 3] at $.blocks[2].down.kernel",
            "expected float32[d_out=2], got float32[3] at $.blocks[2].down.bias",
        ],
    ),
    (
        # Containers and classes first, and then what is wrong in the rest; nothing twice.
        {"blocks": [block(2)], "opt": block(2), "mode": "EVAL", "slots": {"1": 2}, "mask": jnp.ones(3)},
        [
            "expected tuple, got list at $.blocks",
            "expected Adam, got an instance of Block at $.opt",
            "expected an int as key, got str '1' at $.slots",
            "expected a member of Mode, got str 'EVAL' at $.mode",
            "expected bool[d_model=2], got float32[3] at $.mask",
        ],
    ),
    ({"scales": {"low": jnp.ones(9)}}, ["expected float, got nothing at $.scales.high"]),
    ({"moments": None}, ["expected Moments, got None at $.moments"]),
]


@pytest.mark.parametrize(("fields", "said"), WRONG)
def test_all_that_is_wrong_is_said_at_once_and_a_save_refuses_it_too(
    fields: dict[str, Any], said: list[str], tmp_path: Path
) -> None:
    state = evolve(everything(), **fields)

    with pytest.raises(StateMismatchError) as error:
        validate(state)
    with pytest.raises(StateMismatchError):
        save(tmp_path / "x.msgpack", state)

    assert list(map(str, error.value.mismatches)) == said


def test_a_right_state_is_right_whatever_its_arrays_are() -> None:
    validate(everything())
    validate(abstract(Block, d_model=2))
    validate(jax.eval_shape(lambda: block(2)))

    @jax.jit
    def traced(step: Array, rng: Array) -> Array:
        state = evolve(everything(), step=step, rng=rng)
        validate(state)
        with pytest.raises(StateMismatchError, match=r"expected int32\[\], got float32\[1\] at \$\.step"):
            validate(evolve(state, step=jnp.ones(1)))
        return step

    traced(jnp.int32(1), jax.random.split(jax.random.key(0), 2))


def test_only_attributes_are_looked_at() -> None:
    """What was donated has none but those."""
    state = everything()
    for leaf in jax.tree.leaves(state):
        if isinstance(leaf, jax.Array):
            leaf.delete()

    validate(state)
    with pytest.raises(StateMismatchError, match=r"\$\.step"):
        validate(evolve(state, step=state.rng))


def test_sizes_that_the_program_knows() -> None:
    validate(linear(2, 3), dims={"d_in": 2})

    with pytest.raises(StateMismatchError) as error:
        validate(linear(2, 3), dims={"d_in": 4})
    with pytest.raises(TreatyError, match="has no dim 'd_inn'; its dims: d_in, d_out"):
        validate(linear(2, 3), dims={"d_inn": 2})

    assert str(error.value) == "expected float32[d_in=4, d_out=3], got float32[2, 3] at $.kernel"


def test_a_generic_class_is_named_by_its_alias() -> None:
    adam = Adam(count=jnp.int32(0), mu=block(2), nu=linear(2, 3))

    with pytest.raises(StateMismatchError) as error:
        validate(adam, Adam[Block])

    assert str(error.value) == "expected Block, got an instance of Linear at $.nu"


def test_a_state_that_holds_itself_is_told_and_not_walked_for_ever() -> None:
    loop: list[object] = []
    loop.append(loop)

    with pytest.raises(StateMismatchError):
        validate(evolve(everything(), names=loop))


def test_a_partial_of_functools_is_refused_as_a_save_refuses_it() -> None:
    call = everything().call
    value = evolve(everything(), call=functools.partial(call.func, *call.args, **call.keywords))
    with pytest.raises(StateMismatchError) as said:
        validate(value)
    with pytest.raises(StateMismatchError) as saved:
        to_state_dict(value)
    assert str(said.value) == str(saved.value)
    assert "expected a Partial of " in str(said.value)
