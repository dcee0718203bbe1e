"""`Keys("block_{i}")`: items that lie beside the other keys of their class, in state dicts, errors and files of every format."""

from pathlib import Path
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Float32

from tests.runtime.equality import same
from tests.runtime.test_round_trips import WRITERS
from treaty.generator import load
from treaty.runtime import (
    StateMismatchError,
    abstract,
    from_bytes,
    from_state_dict,
    nbytes,
    restore,
    save,
    shardings,
    to_bytes,
    to_state_dict,
)
from treaty.schema import Dims, Keys, Length, state

P: Any = PartitionSpec


@state
class Block:
    kernel: Float32[Array, "d d"]
    bias: Float32[Array, "d"] | None


@state
class Model:
    embed: Float32[Array, "vocab d"]
    blocks: Annotated[tuple[Block, ...], Keys("block_{i}"), Length("n"), Dims("d")]
    norm: Float32[Array, "d"]


@state
class Everything:
    """A dict by text, one by numbers, a list of scalars, and a class with items of its own inside."""

    model: Annotated[Model, Dims("d")]
    convs: Annotated[dict[str, Float32[Array, "d"]], Keys("conv_{key}")]
    slots: Annotated[dict[int, int], Keys("slot {i}.x")]
    rates: Annotated[list[float], Keys("rate_{i}")]
    pair: Annotated[tuple[int, str], Keys("{i}")]


MANY = 12


@pytest.fixture(scope="module")
def model() -> Model:
    load(Everything)
    return _model()


@pytest.fixture(scope="module")
def everything(model: Model) -> Everything:
    return Everything(
        model=model,
        convs={"": jnp.zeros(2), "0": jnp.ones(2), "a.b/ü": jnp.arange(2.0)},
        slots={-3: 1, 0: 2, 10: 3, 2: 4},
        rates=[number / 7 for number in range(MANY)],
        pair=(1, "two"),
    )


def _model() -> Model:
    blocks = [
        Block(kernel=jnp.full((2, 2), i, jnp.float32), bias=jnp.full(2, i, jnp.float32) if i % 5 else None)
        for i in range(MANY)
    ]
    return Model(embed=jnp.ones((3, 2)), blocks=tuple(blocks), norm=jnp.zeros(2))


def test_items_lie_beside_the_other_keys(model: Model) -> None:
    saved = to_state_dict(model)

    assert list(saved) == ["embed", "norm", *(f"block_{i}" for i in range(MANY))]
    assert saved["block_10"]["kernel"] is model.blocks[10].kernel
    same(from_state_dict(Model, saved), model)


def test_items_are_in_the_order_of_their_numbers_whatever_that_of_the_keys(model: Model) -> None:
    saved = to_state_dict(model)
    by_text: dict[str, Any] = {key: saved[key] for key in sorted(saved)}  # block_10 before block_2
    assert list(by_text).index("block_10") < list(by_text).index("block_2")

    same(from_state_dict(Model, by_text), model)


def test_no_items_are_no_keys(model: Model) -> None:
    none = Model(embed=model.embed, blocks=(), norm=model.norm)
    assert list(to_state_dict(none)) == ["embed", "norm"]
    same(from_state_dict(Model, to_state_dict(none)), none)


def test_bytes_give_them_back(everything: Everything) -> None:
    same(from_bytes(Everything, to_bytes(everything)), everything)


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_them_back(name: str, everything: Everything, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name, everything)

    same(restore(tmp_path / name, Everything), everything)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda saved: saved.pop("block_3"), "expected Block, got nothing at $.block_3"),
        (lambda saved: saved.update(block_13=saved.pop("block_11")), "expected Block, got nothing at $.block_11"),
        (lambda saved: saved.update(block_03={}), "expected no such key in Model, got dict at $.block_03"),
        (lambda saved: saved.update(blocks={}), "expected no such key in Model, got dict at $.blocks"),
        (lambda saved: saved.update(block_x=1), "expected no such key in Model, got int 1 at $.block_x"),
        (
            lambda saved: saved["block_10"].update(kernel=jnp.zeros((2, 3))),
            "expected float32[d=2, d=2], got float32[2, 3] at $.block_10.kernel",
        ),
        (lambda saved: saved.update(block_2=None), "expected Block as a dict, got None at $.block_2"),
    ],
    ids=["missing", "gap", "another spelling", "as a field", "no number", "shape", "None"],
)
def test_what_is_wrong_is_said_at_the_key_that_it_has(change: Any, problem: str, model: Model) -> None:
    saved = {key: dict(one) if isinstance(one, dict) else one for key, one in to_state_dict(model).items()}
    change(saved)

    with pytest.raises(StateMismatchError) as raised:
        from_state_dict(Model, saved)

    assert problem in str(raised.value).splitlines()


def test_one_item_is_restored_by_its_key(model: Model, tmp_path: Path) -> None:
    save(tmp_path / "directory", model)

    same(restore(tmp_path / "directory", Block, at="block_10"), model.blocks[10])


def test_abstract_states_and_their_bytes_are_those_of_the_items(model: Model) -> None:
    made = abstract(Model, vocab=3, d=2, n=4)

    assert [one.kernel.shape for one in made.blocks] == [(2, 2)] * 4
    assert nbytes(Model, vocab=3, d=2, n=4) == 4 * (6 + 2 + 4 * (4 + 2))


def test_rules_for_shardings_see_the_keys_of_items(model: Model) -> None:
    mesh = Mesh(np.array(jnp.zeros(1).devices().pop()).reshape(1), ("x",))

    found = shardings(Model, mesh, [("block_1/kernel", P("x")), ("", P())], {"vocab": 3, "d": 2, "n": 2})

    assert [one.kernel.spec for one in found.blocks] == [P(), P("x")]  # type: ignore[attr-defined]
