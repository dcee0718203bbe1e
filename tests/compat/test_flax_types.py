"""Types that Flax registered work without registering again; state classes work inside them, and inside Flax's functions."""

from collections import namedtuple
from pathlib import Path
from typing import Any

import flax.core
import flax.serialization
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from flax import nnx
from flax.training import train_state
from jax.tree_util import tree_map

from tests.compat.trees import FLAX, Point, make_partial, same
from tests.generator.cases.train_state import schema
from treaty.runtime import StateMismatchError, serialization


class Network(nn.Module):
    width: int = 10

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Dense(self.width)(x)
        x = nn.BatchNorm(use_running_average=True)(x)
        return nn.Dense(3)(nn.relu(x))


create: Any = train_state.TrainState.create
APPLY = Network().apply
OPTIMIZER = optax.adamw(1e-3)


def variables(width: int = 10) -> Any:
    return Network(width).init(jax.random.key(0), jnp.ones((1, 4)))


def training(width: int = 10) -> Any:
    params = variables(width)["params"]
    return create(apply_fn=APPLY, params=params, tx=OPTIMIZER)


def linear(d_in: int = 2, d_out: int = 3) -> schema.Linear:
    return schema.Linear(kernel=jnp.ones((d_in, d_out)), bias=jnp.zeros(d_out))


def test_linen_variables_plain_and_frozen() -> None:
    for tree in (variables(), flax.core.freeze(variables()), flax.core.freeze({"a": {"b": [jnp.ones(2)]}})):
        data = flax.serialization.to_bytes(tree)
        assert serialization.to_bytes(tree) == data
        restored = serialization.from_bytes(tree_map(jnp.zeros_like, tree), data)
        assert type(restored) is type(tree)
        assert jax.tree.all(tree_map(np.array_equal, restored, tree))


def test_boxed_linen_parameters() -> None:
    dense = nn.Dense(3, kernel_init=nn.with_partitioning(nn.initializers.ones, (None, "model")))
    tree = dense.init(jax.random.key(0), jnp.ones((1, 4)))
    assert serialization.to_bytes(tree) == flax.serialization.to_bytes(tree)
    restored = serialization.from_bytes(tree, serialization.to_bytes(tree))
    assert restored["params"]["kernel"].names == (None, "model")


def test_a_train_state_with_its_optimizer() -> None:
    state = training()
    grads = tree_map(jnp.ones_like, state.params)
    state = state.apply_gradients(grads=grads)
    data = flax.serialization.to_bytes(state)
    assert serialization.to_bytes(state) == data
    restored = serialization.from_bytes(training(), data)
    assert (restored.step, type(restored.step)) == (1, int)
    assert type(restored.opt_state[0]) is optax.ScaleByAdamState
    assert jax.tree.all(tree_map(np.array_equal, restored, state))


def test_a_step_may_be_an_int_or_an_array_whichever_was_stored() -> None:
    fresh = training()
    jitted = fresh.replace(step=jnp.int32(7))
    assert serialization.from_bytes(fresh, serialization.to_bytes(jitted)).step == np.int32(7)
    assert serialization.from_bytes(jitted, serialization.to_bytes(fresh)).step == 0


def test_the_state_of_an_nnx_model() -> None:
    model = nnx.Sequential(nnx.Linear(2, 3, rngs=nnx.Rngs(0)), nnx.Linear(3, 1, rngs=nnx.Rngs(0)))
    other = nnx.Sequential(nnx.Linear(2, 3, rngs=nnx.Rngs(1)), nnx.Linear(3, 1, rngs=nnx.Rngs(1)))
    pure, target = (nnx.to_pure_dict(nnx.state(one)) for one in (model, other))
    data = serialization.to_bytes(pure)
    assert data == flax.serialization.to_bytes(pure)
    state = nnx.state(other)
    nnx.replace_by_pure_dict(state, serialization.from_bytes(target, data))
    nnx.update(other, state)
    x = jnp.ones((1, 2))
    assert np.array_equal(other(x), model(x))


def test_wrong_shapes_inside_flax_types_are_all_listed() -> None:
    data = flax.serialization.to_bytes({"run": training(20)})
    flax.serialization.from_bytes({"run": training(10)}, data)  # Flax itself does not mind
    with pytest.raises(StateMismatchError) as caught:
        serialization.from_bytes({"run": training(10)}, data)
    lines = str(caught.value).splitlines()
    assert "expected float32[4, 10], got float32[4, 20] at $.run.params.Dense_0.kernel" in lines
    assert "expected float32[4, 10], got float32[4, 20] at $.run.opt_state[0].mu.Dense_0.kernel" in lines
    assert len(lines) == 5 * 3  # kernel, bias, scale, bias, kernel; in params, mu and nu


def test_missing_fields_raise_flaxs_own_error_with_the_whole_path() -> None:
    with pytest.raises(ValueError, match=r"Missing field y in state dict .* at path ./a/0$"):
        serialization.from_state_dict({"a": [Point(1, 2)]}, {"a": {"0": {"x": 1}}})


@pytest.mark.parametrize("module", [serialization, flax.serialization])
def test_a_state_class_inside_flax_types(module: Any) -> None:
    tree = Point(x=linear(), y=flax.core.freeze({"more": (linear(),)}))
    data = module.to_bytes(tree)
    assert data == flax.serialization.to_bytes(Point(x=vars_of(linear()), y={"more": (vars_of(linear()),)}))
    restored = module.from_bytes(tree, data)
    assert type(restored.y["more"][0]) is schema.Linear
    assert type(restored.x.kernel) is np.ndarray
    assert np.array_equal(restored.x.kernel, tree.x.kernel)


def vars_of(value: schema.Linear) -> dict[str, Any]:
    return {"kernel": value.kernel, "bias": value.bias}


def test_state_classes_are_strict_always_and_listed_with_the_rest() -> None:
    tree = {"array": np.zeros(2), "point": Point(x=linear(2, 3), y=[linear(2, 3)])}
    other = {"array": np.zeros(5), "point": Point(x=linear(2, 4), y=[linear(7, 3)])}
    with pytest.raises(StateMismatchError) as caught:
        serialization.from_bytes(tree, serialization.to_bytes(other))
    assert str(caught.value).splitlines() == [
        "expected float64[2], got float64[5] at $.array",
        "expected float32[2, 3] as in the template, got float32[2, 4] at $.point.x.kernel",
        "expected float32[3] as in the template, got float32[4] at $.point.x.bias",
        "expected float32[2, 3] as in the template, got float32[7, 3] at $.point.y[0].kernel",
    ]
    with serialization.strict(False), pytest.raises(StateMismatchError, match=r"at \$.point.x.kernel"):
        serialization.from_bytes(tree, serialization.to_bytes(other))
    with pytest.raises(StateMismatchError, match=r"got float32\[2, 4\] at \$.point.x.kernel"):
        flax.serialization.from_bytes(tree, serialization.to_bytes(other))


def test_a_state_class_may_be_the_target_itself() -> None:
    restored = serialization.from_bytes(schema.Linear, serialization.to_bytes(linear()))
    assert type(restored) is schema.Linear
    assert serialization.is_serializable(schema.Linear)
    assert FLAX.is_serializable(schema.Linear)


def test_partials_tuples_and_old_named_tuples() -> None:
    Pair = namedtuple("Pair", "a b")
    tree = (make_partial(jnp.add, np.ones(2), y=1), Pair(1, [2, (3,)]), ())
    restored = serialization.from_bytes(tree, serialization.to_bytes(tree))
    assert same(restored, tree)
    old = {"name": "Pair", "fields": {"0": "a", "1": "b"}, "values": {"0": 5, "1": 6}}
    assert serialization.from_state_dict(Pair(0, 0), old) == Pair(5, 6)
    Named = namedtuple("Named", "name fields values")
    assert serialization.from_state_dict(Named(0, 0, 0), {"name": 1, "fields": 2, "values": 3}) == Named(1, 2, 3)


def test_int_keys_are_stored_as_text_and_come_back_as_ints() -> None:
    tree = {1: "a", 2: {3: "b"}}
    assert serialization.to_state_dict(tree) == {"1": "a", "2": {"3": "b"}}
    assert serialization.from_bytes(tree, serialization.to_bytes(tree)) == tree
    with pytest.raises(ValueError, match="Dict keys do not have a unique string representation"):
        serialization.to_state_dict({1: 0, "1": 0})
    assert serialization.msgpack_restore(serialization.msgpack_serialize({1: 2})) == {1: 2}


def test_files_written_by_flax_and_by_us_are_the_same(tmp_path: Path) -> None:
    state = training()
    serialization.save_to_file(state, tmp_path / "new" / "directory" / "state.msgpack")
    path = tmp_path / "new" / "directory" / "state.msgpack"
    assert path.read_bytes() == flax.serialization.to_bytes(state)
    restored = serialization.load_from_file(training(), str(path))
    assert jax.tree.all(tree_map(np.array_equal, restored, state))
