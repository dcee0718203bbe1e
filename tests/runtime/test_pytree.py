"""Generated classes as pytrees: leaves by attribute, static fields as metadata, `__init__` never called."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import jax
import jax.numpy as jnp
import pytest
from jax import Array
from jax.tree_util import GetAttrKey, tree_flatten_with_path
from jaxtyping import Float32

from tests.generator.cases.train_state import schema as train_state
from treaty.generator import load
from treaty.runtime import abstract
from treaty.schema import field, state


def linear() -> train_state.Linear:
    return train_state.Linear(kernel=jnp.ones((2, 3)), bias=jnp.zeros(3))


def test_paths_are_attributes() -> None:
    paths = [path for path, _ in tree_flatten_with_path(linear())[0]]
    assert paths == [(GetAttrKey("kernel"),), (GetAttrKey("bias"),)]


def test_static_fields_are_metadata() -> None:
    value = abstract(train_state.TrainState, vocab=1, d_model=1, n_layers=0)
    other = attrs.evolve(value, note="x")  # type: ignore[misc]
    one: Any = jax.tree.structure(value)
    assert one != jax.tree.structure(other)
    assert "" not in jax.tree.leaves(value)


def test_transformations_work() -> None:
    def loss(params: train_state.Linear) -> Any:
        return (params.kernel.sum() + params.bias.sum()) ** 2

    gradient = jax.jit(jax.grad(loss))(linear())
    assert isinstance(gradient, train_state.Linear)
    doubled = jax.tree.map(lambda x: 2 * x, linear())
    assert float(doubled.kernel.sum()) == 12
    assert jax.vmap(lambda p: p.kernel.sum())(jax.tree.map(lambda x: jnp.stack([x, x]), linear())).shape == (2,)


def test_validators_are_not_run_by_tree_map() -> None:
    @state
    class Checked:
        x: Float32[Array, "d"] = field(validator=attrs.validators.instance_of(Array))

    load(Checked)
    names = jax.tree.map(lambda _: "a name", Checked(x=jnp.ones(1)))
    assert names.x == "a name"


def test_classes_without_slots_and_with_one_or_no_fields() -> None:
    @attrs.define(slots=False)
    class Loose:
        x: Float32[Array, "d"]

    @state
    class Empty:
        pass

    @state
    class Named:
        note: str = field(static=True)

    for cls in (Loose, Empty, Named):
        load(cls)
    assert jax.tree.map(lambda x: x + 1, Loose(x=jnp.zeros(2))).x.sum() == 2
    assert isinstance(jax.tree.map(lambda x: x, Empty()), Empty)
    assert jax.tree.map(lambda x: x, Named(note="n")).note == "n"


def test_a_class_that_is_a_pytree_already_stays_what_it_is() -> None:
    @attrs.define
    class Mine:
        x: Float32[Array, "d"]
        y: Float32[Array, "d"]

    jax.tree_util.register_pytree_node(Mine, lambda m: ((m.y,), m.x), lambda x, y: Mine(x, y[0]))
    load(Mine)
    assert len(jax.tree.leaves(Mine(x=jnp.ones(1), y=jnp.ones(1)))) == 1


@pytest.mark.parametrize("name", ["kernel", "missing"])
def test_instances_are_frozen(name: str) -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(linear(), name, 1)


def test_the_first_instance_makes_the_class_a_pytree(tmp_path: Path) -> None:
    """In a fresh process, with nothing of Treaty's runtime imported by the user."""
    (tmp_path / "model.py").write_text(
        "from jax import Array\nfrom jaxtyping import Float32\nfrom treaty.schema import state\nimport jax.numpy as jnp\n\n"
        "@state\nclass One:\n    x: Float32[Array, 'd']\n\n"
        "DEFAULT = One(x=jnp.ones(2))\n\n@state\nclass Two:\n    one: One\n"
    )
    subprocess.run([sys.executable, "-m", "treaty.cli", "generate", "model"], cwd=tmp_path, check=True)
    code = "import jax, model; print(jax.jit(lambda t: t.one.x.sum())(model.Two(one=model.DEFAULT)))"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True) == "2.0\n"
