"""`FromInit`: states of real optimizers come back as they were, node for node and bit for bit."""

from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.runtime import optimizers
from tests.runtime.equality import same
from tests.runtime.optimizers import FACTORIES, Adafactored, Model, Training
from tests.runtime.test_round_trips import WRITERS
from treaty.generator import load
from treaty.runtime import (
    CodecError,
    StateMismatchError,
    abstract,
    from_live,
    from_state_dict,
    nbytes,
    restore,
    to_state_dict,
)
from treaty.runtime._state import registry
from treaty.schema import Dims, FromInit, ir, schema_of, state
from treaty.schema._read import schema_as_generated


@pytest.fixture(scope="module")
def training() -> Training:
    """A state of each optimizer, of numbers that no init makes."""
    load(Training)
    model = optimizers.model()
    made = Training(model=model, **{name: make().init(model) for name, make in FACTORIES.items()})
    numbers = np.random.default_rng(0)

    def fill(leaf: Any) -> Any:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.key(7)
        return jnp.asarray(numbers.integers(0, 2, leaf.shape) + numbers.random(leaf.shape)).astype(leaf.dtype)

    filled: Training = jax.tree.map(fill, made)
    return filled


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_back_the_state_of_every_optimizer(name: str, training: Training, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name, training)

    restored = restore(tmp_path / name, Training)

    same(restored, training)
    for one, make in FACTORIES.items():
        assert _structure(getattr(restored, one)) == _structure(make().init(restored.model)), one


def test_an_optimizer_goes_on_with_what_was_restored(training: Training) -> None:
    restored = from_state_dict(Training, to_state_dict(training))
    optimizer = optimizers.groups()
    gradients = jax.tree.map(jnp.ones_like, restored.model)

    updates, after = optimizer.update(gradients, restored.groups, restored.model)

    expected = optimizer.update(gradients, training.groups, training.model)
    same((updates, after), expected)


def test_the_abstract_state_is_that_of_the_optimizer_at_these_sizes(training: Training) -> None:
    made = abstract(Training, vocab=11, d_model=4, n_layers=2)

    for name, make in FACTORIES.items():
        expected = jax.eval_shape(make().init, made.model)
        assert _structure(getattr(made, name)) == _structure(expected), name
        shapes = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(expected)]
        assert [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(getattr(made, name))] == shapes, name
    arrays = [leaf for leaf in jax.tree.leaves(training) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]
    assert nbytes(Training, vocab=11, d_model=4, n_layers=2) == sum(leaf.nbytes for leaf in arrays) + 8  # and the key


def test_what_has_the_structure_of_the_params_is_of_their_class(training: Training) -> None:
    schema = schema_of(Training)
    adam = _type(schema, "adamw")
    assert isinstance(adam, ir.Tuple)
    scaled, *rest = adam.items
    assert isinstance(scaled, ir.Node)
    fields = {field.name: ir.describe(field.type).rpartition(":")[2] for field in schema[scaled.cls].fields}
    params = "Model(d_model=d_model, n_layers=n_layers, vocab=vocab)"
    assert fields == {"count": "int32[]", "mu": params, "nu": params}
    assert [ir.describe(one) for one in rest] == ["optax:EmptyState()", "optax:EmptyState()"]
    assert [type(one).__name__ for one in training.adamw] == ["ScaleByAdamState", "EmptyState", "EmptyState"]
    assert type(training.accumulated.acc_grads) is Model
    assert training.accumulated.acc_grads.embed.dtype == np.float32  # of bfloat16 params, as MultiSteps has it
    assert type(training.masked.inner_state[0].mu.layers[0].up.bias) is optax.MaskedNode


def test_dims_are_those_of_the_owner(training: Training) -> None:
    state = to_state_dict(training)
    state["accumulated"]["acc_grads"]["layers"]["1"]["up"]["b"] = np.zeros(15, np.float32)
    state["masked"]["inner_state"]["0"]["nu"]["embed"] = np.zeros((11, 5), jnp.bfloat16)
    state["adamw"]["1"] = {"count": np.int32(0)}
    with pytest.raises(StateMismatchError) as raised:
        from_state_dict(Training, state)
    assert str(raised.value).splitlines() == [
        "expected no such key in EmptyState(), got numpy scalar int32 at $.adamw[1].count",
        "expected float32[d_out=16], got float32[15] at $.accumulated.acc_grads.layers[1].up.b",
        "expected bfloat16[vocab=11, d_model=4], got bfloat16[11, 5] at $.masked.inner_state[0].nu.embed",
    ]


def test_a_live_state_is_taken_as_it_is(training: Training) -> None:
    live = {name: getattr(training, name) for name in ("model", *FACTORIES)}
    same(from_live(Training, live), training)


asked: list[int] = []
momentum = optax.trace(0.9)


class Counted:
    """An optimizer that knows how often its init was asked, and may be swapped."""

    def init(self, params: Any) -> Any:
        asked.append(1)
        return momentum.init(params)


def counted() -> Counted:
    return Counted()


@state
class CountedState:
    model: Annotated[Model, Dims(...)]
    opt: Annotated[Any, FromInit(counted, of="model")]


def test_init_is_asked_once_where_it_makes_what_code_was_generated_for(monkeypatch: pytest.MonkeyPatch) -> None:
    load(CountedState)
    params = optimizers.model()
    value = CountedState(model=params, opt=momentum.init(params))
    asked.clear()
    to_state_dict(value)
    assert len(asked) == 1
    assert schema_as_generated(CountedState, lambda _: schema_of(CountedState)) == schema_of(CountedState)

    monkeypatch.setattr(registry, "_checked", {})  # as in the next process
    monkeypatch.setattr(registry, "_bare", {})
    for other in (optax.trace(0.9, accumulator_dtype=jnp.bfloat16), optax.ema(0.9), optax.adam(1e-3)):
        monkeypatch.setitem(globals(), "momentum", other)
        with pytest.raises(CodecError, match="is older than its declaration; run: treaty generate"):
            to_state_dict(value)


def _structure(tree: Any) -> Any:
    return jax.tree.structure(tree)


def _type(schema: ir.Schema, name: str) -> ir.Type:
    return next(field.type for field in schema.root_class.fields if field.name == name)


@pytest.mark.parametrize(("d_model", "rows"), [(4, 1), (150, 150)])
def test_shapes_that_depend_on_sizes_are_those_of_init_at_the_sizes_of_the_restore(d_model: int, rows: int) -> None:
    load(Adafactored)
    params = optimizers.model(vocab=150, d_model=d_model)
    made = Adafactored(model=params, opt=optimizers.adafactor().init(params))
    assert made.opt[0].v_row.embed.shape == (
        rows,
    )  # adafactor keeps sums of rows and columns where both sides have 128

    same(from_state_dict(Adafactored, to_state_dict(made)), made)

    wrong = to_state_dict(made)
    wrong["opt"]["0"]["v_row"]["embed"] = np.zeros(7, jnp.bfloat16)
    with pytest.raises(StateMismatchError) as raised:
        from_state_dict(Adafactored, wrong)
    assert str(raised.value) == f"expected bfloat16[{rows}], got bfloat16[7] at $.opt[0].v_row.embed"
