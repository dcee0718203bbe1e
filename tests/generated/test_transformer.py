"""The reference transformer: its train state without a model, with real arrays, and against wrong ones."""

from functools import cache, partial
from pathlib import Path
from typing import Any, assert_type

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import Array

from tests.generated.optimizers import QUICK, same, same_structure
from treaty.generated.transformer import params_abstract, train_state_from_state_dict, train_state_to_state_dict
from treaty.generator import generate
from treaty.runtime import StateMismatchError, abstract, from_state_dict, nbytes, to_state_dict
from treaty.schema import TreatyError
from treaty.schema.library.optax import AdamW, ScheduleState, from_optax, to_optax
from treaty.schema.library.transformer import Attention, Block, Norm, Params, TrainState

DIMS = {"vocab": 11, "d_model": 8, "n_layers": 2, "n_heads": 4, "d_head": 6, "n_kv_heads": 2, "d_ff": 16}
OPTIMIZER: Any = optax.adamw(optax.cosine_decay_schedule(1e-2, 100))


def real() -> TrainState:
    """A train state with random weights, as a run begins with."""
    shapes, tree = jax.tree.flatten(abstract(Params, **DIMS))
    random = np.random.default_rng(0)
    params = jax.tree.unflatten(tree, [jnp.asarray(random.normal(0, 0.3, one.shape), one.dtype) for one in shapes])
    opt = from_optax(OPTIMIZER.init(params), AdamW[Params, ScheduleState])
    return TrainState(step=jnp.int32(0), params=params, opt=opt, rng=jax.random.key(1))


def normalised(norm: Norm, x: Array) -> Array:
    return norm.scale * x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def attended(attention: Attention, x: Array) -> Array:
    query = jnp.einsum("td,dhk->thk", x, attention.query)
    key, value = (jnp.einsum("td,dgk->tgk", x, one) for one in (attention.key, attention.value))
    mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
    return jnp.einsum("thk,hkd->td", mixed, attention.out)


def transformed(block: Block, x: Array) -> Array:
    x = x + attended(block.attention, normalised(block.attention_norm, x))
    y = normalised(block.mlp_norm, x)
    return x + (jax.nn.silu(y @ block.mlp.gate) * (y @ block.mlp.up)) @ block.mlp.down


def loss(params: Params, tokens: Array) -> Array:
    x = params.embedding[tokens[:-1]]
    for block in params.blocks:
        x = transformed(block, x)
    logits = normalised(params.final_norm, x) @ params.embedding.T
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, tokens[1:]))


@partial(jax.jit, compiler_options=QUICK)
def step(state: TrainState) -> TrainState:
    rng, now = jax.random.split(state.rng)
    tokens = jax.random.randint(now, (9,), 0, DIMS["vocab"])
    updates, opt = OPTIMIZER.update(jax.grad(loss)(state.params, tokens), to_optax(state.opt), state.params)
    return TrainState(
        step=state.step + 1,
        params=optax.apply_updates(state.params, updates),
        opt=from_optax(opt, AdamW[Params, ScheduleState]),
        rng=rng,
    )


@cache
def trained() -> TrainState:
    state: TrainState = step(step(real()))
    return state


def stored(state: TrainState) -> Any:
    """The state dict with its arrays on the host, as a checkpoint has them."""
    return jax.tree.map(lambda leaf: leaf if isinstance(leaf, str) else np.asarray(leaf), to_state_dict(state))


def bits(state: TrainState) -> Any:
    """The state with its key as plain numbers, which `same` can compare."""
    return to_state_dict(state) | {"rng": jax.random.key_data(state.rng)}


def test_the_schema_alone_gives_every_shape() -> None:
    without_values = abstract(TrainState, **DIMS)

    assert_type(without_values, TrainState)
    assert same_structure(without_values, real())
    shapes = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(without_values)]
    assert shapes == [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(real())]


def test_the_optimizer_state_is_what_optax_would_make_of_the_params() -> None:
    made = jax.eval_shape(OPTIMIZER.init, abstract(Params, **DIMS))
    declared = to_optax(abstract(TrainState, **DIMS).opt)

    assert same_structure(made, declared)
    assert jax.tree.leaves(made) == jax.tree.leaves(declared)


def test_the_schema_alone_gives_the_number_of_bytes() -> None:
    state = real()
    plain = jax.tree.leaves((state.step, state.params, state.opt, jax.random.key_data(state.rng)))

    assert nbytes(TrainState, **DIMS) == sum(leaf.nbytes for leaf in plain)


def test_no_array_is_needed_to_size_a_large_model() -> None:
    dims = {"vocab": 128_256, "d_model": 8192, "n_layers": 80, "n_heads": 64, "d_head": 128, "n_kv_heads": 8}

    assert nbytes(Params, **dims, d_ff=28_672) == 4 * 69_503_033_344


def test_every_dim_must_be_given() -> None:
    dims = {name: size for name, size in DIMS.items() if name not in ("n_heads", "d_ff")}

    with pytest.raises(TreatyError, match="needs n_heads, d_ff"):
        abstract(TrainState, **dims)


def test_a_train_state_comes_back_as_it_was() -> None:
    again = from_state_dict(TrainState, stored(trained()))

    assert same_structure(again, trained())
    assert same(bits(again), bits(trained()))
    assert again.rng.dtype == trained().rng.dtype


def test_training_goes_on_from_a_restored_state_as_if_nothing_had_happened() -> None:
    again = from_state_dict(TrainState, stored(trained()))

    assert same(bits(step(again)), bits(step(trained())))


def test_params_restore_alone() -> None:
    params = from_state_dict(Params, stored(trained())["params"])

    assert_type(params, Params)
    assert same(params, trained().params)


def test_the_generated_functions_are_typed() -> None:
    state_dict = train_state_to_state_dict(trained())

    assert_type(train_state_from_state_dict(state_dict, n_layers=2), TrainState)
    assert_type(params_abstract(**DIMS), Params)
    assert state_dict["opt"]["0"]["mu"]["blocks"]["1"]["mlp"]["up"].shape == (8, 16)


def test_a_matrix_of_another_size_is_named_by_its_dims() -> None:
    state = stored(trained())
    state["params"]["blocks"]["1"]["mlp"]["up"] = np.zeros((8, 17), np.float32)

    assert problems(state) == ["expected float32[d_model=8, d_ff=16], got float32[8, 17] at $.params.blocks[1].mlp.up"]


def test_moments_of_another_model_are_named_by_their_dims() -> None:
    state = stored(trained())
    state["opt"]["0"]["nu"]["embedding"] = np.zeros((12, 8), np.float32)

    assert problems(state) == ["expected float32[vocab=11, d_model=8], got float32[12, 8] at $.opt['0'].nu.embedding"]


def test_a_model_of_fewer_layers_is_named_by_its_length() -> None:
    state = stored(trained())
    del state["opt"]["0"]["mu"]["blocks"]["1"]

    assert problems(state) == ["expected n_layers=2 items, got 1 items at $.opt['0'].mu.blocks"]


def test_dims_given_by_the_caller_are_held() -> None:
    with pytest.raises(StateMismatchError, match=r"expected n_layers=3 items, got 2 items at \$\.params\.blocks"):
        from_state_dict(TrainState, stored(trained()), dims={"n_layers": 3})


def test_every_problem_is_told_at_once() -> None:
    state = stored(trained())
    state["step"] = np.zeros((), np.int64)
    state["opt"]["2"]["count"] = np.zeros((1,), np.int32)
    state["params"]["final_norm"]["scale"] = np.zeros((9,), np.float32)
    state["params"]["head"] = np.zeros((8, 11), np.float32)

    assert problems(state) == [
        "expected int32[], got int64[] at $.step",
        "expected float32[d_model=8], got float32[9] at $.params.final_norm.scale",
        "expected no such key in Params, got float32[8, 11] at $.params.head",
        "expected int32[], got int32[1] at $.opt['2'].count",
    ]


def problems(state: Any) -> list[str]:
    with pytest.raises(StateMismatchError) as caught:
        from_state_dict(TrainState, state)
    return [str(one) for one in caught.value.mismatches]


@pytest.mark.parametrize("module", ["treaty.schema.library.optax", "treaty.schema.library.transformer"])
def test_the_committed_code_is_what_the_schema_generates(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)

    for path, text in generate(module).items():
        assert (root / "generated" / path).read_text() == text
