"""Optimizers as people use them, each with the type that its state has in a schema, and how to train with one."""

from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any, Final, NamedTuple, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jaxtyping import BFloat16, Bool, Float32

from treaty.schema import Dims
from treaty.schema.library.optax import (
    Adam,
    AdamState,
    AdamW,
    AmsgradState,
    ApplyIfFiniteState,
    BeliefState,
    EmaState,
    EmptyState,
    FactoredState,
    InjectStatefulHyperparamsState,
    Lion,
    MaskedNode,
    MaskedState,
    MixedAdamState,
    MultiStepsState,
    PartitionState,
    RmsState,
    RssState,
    ScheduleState,
    Sgd,
    SkipLargeUpdates,
    SkipNotFinite,
    TraceState,
    WeightDecayScheduleState,
    WrappedScheduleState,
    ZeroNansState,
)


class Weights(TypedDict):
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


class HalfWeights(TypedDict):
    kernel: BFloat16[Array, "d_in d_out"]
    bias: BFloat16[Array, "d_out"]


class Flags(TypedDict):
    kernel: Bool[Array, ""]
    bias: Bool[Array, ""]


class KernelOnly(TypedDict):
    kernel: Float32[Array, "d_in d_out"]
    bias: MaskedNode


class BiasOnly(TypedDict):
    kernel: MaskedNode
    bias: Float32[Array, "d_out"]


class Rows(TypedDict):
    """Adafactor's factor of a kernel with d_in > d_out; what is not factored has one element."""

    kernel: Float32[Array, "d_out"]
    bias: Float32[Array, "1"]


class Columns(TypedDict):
    kernel: Float32[Array, "d_in"]
    bias: Float32[Array, "1"]


class Unfactored(TypedDict):
    kernel: Float32[Array, "1"]
    bias: Float32[Array, "d_out"]


class Groups(TypedDict):
    fast: Annotated[MaskedState[Adam[KernelOnly, EmptyState]], Dims(...)]
    slow: Annotated[MaskedState[Sgd[TraceState[BiasOnly], EmptyState]], Dims(...)]


class Rate(TypedDict):
    learning_rate: WrappedScheduleState


class NamedChain(TypedDict):
    clip: EmptyState
    adam: Adam[Weights, EmptyState]


class Case(NamedTuple):
    optimizer: Any
    cls: Any
    params: Any = Weights


# Programs that are compiled once and run a few times need no optimising.
QUICK: Final = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

_schedule = optax.linear_schedule(1e-2, 1e-3, 10)
_Scalars = dict[str, Float32[Array, ""]]
_W = Weights
_AdamW = AdamW[Weights, EmptyState]

CASES: dict[str, Case] = {
    "adam": Case(optax.adam(1e-2), Adam[_W, EmptyState]),
    "adam nesterov": Case(optax.adam(1e-2, nesterov=True), Adam[_W, EmptyState]),
    "adam schedule": Case(optax.adam(_schedule), Adam[_W, ScheduleState]),
    "adamw": Case(optax.adamw(1e-2), _AdamW),
    "adamw schedule": Case(optax.adamw(_schedule), AdamW[_W, ScheduleState]),
    "adamw decay mask": Case(
        optax.adamw(1e-2, mask={"kernel": True, "bias": False}),
        tuple[AdamState[_W], MaskedState[EmptyState], EmptyState],
    ),
    "adamw mu_dtype": Case(
        optax.adamw(1e-2, mu_dtype=jnp.bfloat16), tuple[MixedAdamState[HalfWeights, _W], EmptyState, EmptyState]
    ),
    "adamw bfloat16 params": Case(optax.adamw(1e-2), AdamW[HalfWeights, EmptyState], HalfWeights),
    "amsgrad": Case(optax.amsgrad(1e-2), tuple[AmsgradState[_W], EmptyState]),
    "adabelief": Case(optax.adabelief(1e-2), tuple[BeliefState[_W], EmptyState]),
    "lion": Case(optax.lion(1e-2), Lion[_W, EmptyState]),
    "lion schedule": Case(optax.lion(_schedule), Lion[_W, ScheduleState]),
    "rmsprop": Case(optax.rmsprop(1e-2), tuple[RmsState[_W], EmptyState, EmptyState]),
    "adagrad": Case(optax.adagrad(1e-2), tuple[RssState[_W], EmptyState]),
    "sgd": Case(optax.sgd(1e-2), Sgd[EmptyState, EmptyState]),
    "sgd schedule": Case(optax.sgd(_schedule), Sgd[EmptyState, ScheduleState]),
    "sgd momentum": Case(optax.sgd(1e-2, momentum=0.9), Sgd[TraceState[_W], EmptyState]),
    "sgd bfloat16 momentum": Case(
        optax.sgd(1e-2, momentum=0.9, accumulator_dtype=jnp.bfloat16), Sgd[TraceState[HalfWeights], EmptyState]
    ),
    "adafactor": Case(
        optax.adafactor(1e-2, min_dim_size_to_factor=2),
        tuple[FactoredState[Rows, Columns, Unfactored], EmptyState, EmptyState, EmptyState, EmptyState],
    ),
    "adafactor momentum": Case(
        optax.adafactor(_schedule, momentum=0.9, weight_decay_rate=1e-4, min_dim_size_to_factor=2),
        tuple[
            FactoredState[Rows, Columns, Unfactored],
            EmptyState,
            ScheduleState,
            EmptyState,
            EmaState[_W],
            EmptyState,
            EmptyState,
        ],
    ),
    "ema": Case(optax.ema(0.9), EmaState[_W]),
    "clip": Case(
        optax.chain(optax.clip(1.0), optax.clip_by_global_norm(1.0), optax.adam(1e-2)),
        tuple[EmptyState, EmptyState, Adam[_W, EmptyState]],
    ),
    "add_decayed_weights": Case(
        optax.chain(optax.add_decayed_weights(1e-4), optax.add_decayed_weights(_schedule)),
        tuple[EmptyState, WeightDecayScheduleState],
    ),
    "zero_nans": Case(optax.zero_nans(), ZeroNansState[Flags]),
    "apply_if_finite": Case(optax.apply_if_finite(optax.adamw(1e-2), 3), ApplyIfFiniteState[_AdamW]),
    "MultiSteps": Case(optax.MultiSteps(optax.adamw(1e-2), 2), MultiStepsState[_AdamW, _W, tuple[()]]),
    "MultiSteps bfloat16 params": Case(
        optax.MultiSteps(optax.adamw(1e-2), 3),
        MultiStepsState[AdamW[HalfWeights, EmptyState], _W, tuple[()]],
        HalfWeights,
    ),
    "MultiSteps skip_not_finite": Case(
        optax.MultiSteps(optax.adamw(1e-2), 3, should_skip_update_fn=optax.skip_not_finite),
        MultiStepsState[_AdamW, _W, SkipNotFinite],
    ),
    "MultiSteps skip_large_updates": Case(
        optax.MultiSteps(
            optax.adamw(1e-2), 3, should_skip_update_fn=partial(optax.skip_large_updates, max_squared_norm=9.0)
        ),
        MultiStepsState[_AdamW, _W, SkipLargeUpdates],
    ),
    "masked": Case(
        optax.masked(optax.adam(1e-2), {"kernel": True, "bias": False}), MaskedState[Adam[KernelOnly, EmptyState]]
    ),
    "partition": Case(
        optax.partition(
            {"fast": optax.adam(1e-2), "slow": optax.sgd(1e-3, momentum=0.9)}, {"kernel": "fast", "bias": "slow"}
        ),
        PartitionState[Groups],
    ),
    "inject_hyperparams": Case(
        optax.inject_hyperparams(optax.adamw)(learning_rate=_schedule),
        InjectStatefulHyperparamsState[_Scalars, Rate, _AdamW],
    ),
    "inject_hyperparams constant": Case(
        optax.inject_hyperparams(optax.adamw)(learning_rate=1e-2),
        InjectStatefulHyperparamsState[_Scalars, dict[str, WrappedScheduleState], _AdamW],
    ),
}


@cache
def _compiled(optimizer: Any) -> Callable[..., Any]:
    def step(params: Any, opt: Any) -> Any:
        # The gradients of a loss that pulls every param towards its index.
        grads = jax.tree.map(lambda p: p - jnp.arange(p.size, dtype=p.dtype).reshape(p.shape), params)
        updates, opt = optimizer.update(grads, opt, params)
        return optax.apply_updates(params, updates), opt

    return jax.jit(step, compiler_options=QUICK)


def train(optimizer: Any, params: Any, opt: Any, steps: int) -> tuple[Any, Any]:
    for _ in range(steps):
        params, opt = _compiled(optimizer)(params, opt)
    return params, opt


@cache
def trained(name: str) -> tuple[Any, Any]:
    """Params and optax's own state after two updates."""
    case = CASES[name]
    dtype = jnp.bfloat16 if case.params is HalfWeights else jnp.float32
    params = {"kernel": jnp.linspace(-1, 1, 12, dtype=dtype).reshape(4, 3), "bias": jnp.ones(3, dtype)}
    return train(case.optimizer, params, case.optimizer.init(params), 2)


def same(left: Any, right: Any) -> bool:
    """Whether two trees have one structure and the same bits in every leaf."""
    if not same_structure(left, right):
        return False
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(
        (a.dtype, a.shape) == (b.dtype, b.shape) and np.asarray(a).tobytes() == np.asarray(b).tobytes()
        for a, b in pairs
    )


def same_structure(left: Any, right: Any) -> bool:
    first: Any = jax.tree.structure(left)  # JAX's stubs give the class no __eq__
    return bool(first == jax.tree.structure(right))
