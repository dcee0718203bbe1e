"""Optax's states as attrs classes (twins), and conversion both ways.

    opt: AdamW[Params, ScheduleState]                       # the state of optax.adamw(schedule)

    state = from_optax(tx.init(params), AdamW[Params, ScheduleState])
    updates, opt = tx.update(grads, to_optax(state), params)

A twin has the fields of optax's class and is stored under the same keys, so a checkpoint of one reads as the other. Its
name is optax's without `ScaleBy`, with `State` at the end. Type arguments say what hangs below: params-like trees and
inner states. Whatever has the structure of the params but not their dtypes (bfloat16 momenta, float32 accumulators) or
not their shapes (adafactor's factors) is an argument of its own.

The state of a chain is the tuple of its members' states. Members without state are kept (`EmptyState`):

    tuple[EmptyState, AdamState[Params], EmptyState]        # chain(clip(1.0), scale_by_adam(), scale(-1e-3))

A `Chain` is such a tuple whose members have names. Optimizers with one fixed chain are here, others are as easily said:

    @state
    class Optimizer(Chain):                                 # chain(clip_by_global_norm(1.0), adamw(1e-3))
        clip: EmptyState = field(key="0")
        adamw: AdamW[Params, EmptyState] = field(key="1")

The state of a named_chain is a dict by name: a TypedDict, or dict[str, X] where all are alike. Optax's is an
OrderedDict, and restores as a dict, which its update takes as well.

Optax is not needed to declare, store or restore any of these, only to convert.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Generic, TypedDict, TypeVar, overload

from jax import Array
from jaxtyping import Bool, Float32, Int32

from treaty.schema import Dims, field, state
from treaty.schema.library._twins import Chain as Chain
from treaty.schema.library._twins import Twins

__treaty__ = "treaty.generated.optax"

_P = TypeVar("_P")  # a tree like the params
_Q = TypeVar("_Q")  # others like it, of other dtypes or shapes
_V = TypeVar("_V")
_S = TypeVar("_S")  # the state of another transformation
_R = TypeVar("_R")  # the state of the learning rate: EmptyState for a number, ScheduleState for a schedule
_H = TypeVar("_H")  # hyperparameters by name
_K = TypeVar("_K")  # whatever else
_T = TypeVar("_T")


@state
class EmptyState:
    """Of every transformation without state: clip, clip_by_global_norm, scale, add_decayed_weights, identity."""


@state
class AdamState(Generic[_P]):
    """scale_by_adam, also with nesterov; adamax, yogi, radam and lamb use it too. With mu_dtype: MixedAdamState."""

    count: Int32[Array, ""]
    mu: _P
    nu: _P


@state
class MixedAdamState(Generic[_Q, _P]):
    """scale_by_adam with a mu_dtype: `mu` has dtypes of its own. from_optax makes it where `cls` says so."""

    count: Int32[Array, ""]
    mu: _Q
    nu: _P


@state
class AmsgradState(Generic[_P]):
    count: Int32[Array, ""]
    mu: _P
    nu: _P
    nu_max: _P


@state
class BeliefState(Generic[_P]):
    """scale_by_belief, of adabelief."""

    count: Int32[Array, ""]
    mu: _P
    nu: _P


@state
class LionState(Generic[_P]):
    count: Int32[Array, ""]
    mu: _P


@state
class RmsState(Generic[_P]):
    """scale_by_rms, of rmsprop."""

    nu: _P


@state
class RssState(Generic[_P]):
    """scale_by_rss, of adagrad."""

    sum_of_squares: _P


@state
class TraceState(Generic[_P]):
    """trace, the momentum of sgd."""

    trace: _P


@state
class EmaState(Generic[_P]):
    count: Int32[Array, ""]
    ema: _P


@state
class FactoredState(Generic[_P, _Q, _V]):
    """scale_by_factored_rms, of adafactor.

    Which params are factored depends on sizes (`min_dim_size_to_factor`), so no schema can derive these trees from the
    params: a factored `Float32[Array, "a b"]` with a < b has "a" in v_row, "b" in v_col and "1" in v; one that is not
    has "1", "1" and its own shape. Say so in three classes of your own, or leave a tree unchecked with Any, which
    restores as nested dicts.
    """

    count: Int32[Array, ""]
    v_row: _P
    v_col: _Q
    v: _V


@state
class ScheduleState:
    """scale_by_schedule: a learning rate that is a schedule."""

    count: Int32[Array, ""]


@state
class WeightDecayScheduleState:
    """add_decayed_weights with a schedule."""

    count: Int32[Array, ""]


@state
class ZeroNansState(Generic[_P]):
    """zero_nans: a tree like the params, with one bool a leaf."""

    found_nan: _P


@state
class ApplyIfFiniteState(Generic[_S]):
    notfinite_count: Int32[Array, ""]
    last_finite: Bool[Array, ""]
    total_notfinite: Int32[Array, ""]
    inner_state: _S


@state
class MultiStepsState(Generic[_S, _P, _K]):
    """MultiSteps. `acc_grads` is float32 whatever the params are; `skip_state` is `tuple[()]` unless updates are
    skipped: then SkipNotFinite, SkipLargeUpdates, or what your own function returns."""

    mini_step: Int32[Array, ""]
    gradient_step: Int32[Array, ""]
    inner_opt_state: _S
    acc_grads: _P
    skip_state: _K


class SkipNotFinite(TypedDict):
    """`skip_state` of MultiSteps(should_skip_update_fn=skip_not_finite)."""

    should_skip: Bool[Array, ""]
    num_not_finite: Int32[Array, ""]


class SkipLargeUpdates(TypedDict):
    """`skip_state` of MultiSteps(should_skip_update_fn=skip_large_updates) on float32 gradients."""

    should_skip: Bool[Array, ""]
    norm_squared: Float32[Array, ""]


@state
class MaskedNode:
    """Stands in a tree where a param is masked out.

    A masked tree is the params' own with some leaves replaced. Of TypedDict params, write another TypedDict; of an
    attrs class, `Annotated[Linear, Fields(kernel=Float32[Array, "a b"], bias=MaskedNode)]`.
    """


@state
class MaskedState(Generic[_S]):
    """masked, and each group of a PartitionState."""

    inner_state: _S


@state
class PartitionState(Generic[_S]):
    """partition, also called multi_transform. `inner_states` is a dict by label, each a MaskedState: dict[str, X] where
    all are alike, else a TypedDict."""

    inner_states: _S


@state
class WrappedScheduleState:
    """In `hyperparams_states`, of a hyperparameter that is a schedule."""

    count: Int32[Array, ""]


@state
class InjectStatefulHyperparamsState(Generic[_H, _K, _S]):
    """inject_hyperparams. `hyperparams` is dict[str, Float32[Array, ""]] or a TypedDict, and so is
    `hyperparams_states`, which has the scheduled ones only."""

    count: Int32[Array, ""]
    hyperparams: _H
    hyperparams_states: _K
    inner_state: _S


@state
class Adam(Chain, Generic[_P, _R]):
    """optax.adam: also nadam, adamax, yogi, radam."""

    adam: Annotated[AdamState[_P], Dims(...)] = field(key="0")
    learning_rate: _R = field(key="1")


@state
class AdamW(Chain, Generic[_P, _R]):
    """optax.adamw without a mask: also nadamw and adamaxw."""

    adam: Annotated[AdamState[_P], Dims(...)] = field(key="0")
    weight_decay: EmptyState = field(key="1")
    learning_rate: _R = field(key="2")


@state
class Lion(Chain, Generic[_P, _R]):
    """optax.lion without a mask."""

    lion: Annotated[LionState[_P], Dims(...)] = field(key="0")
    weight_decay: EmptyState = field(key="1")
    learning_rate: _R = field(key="2")


@state
class Sgd(Chain, Generic[_S, _R]):
    """optax.sgd: `momentum` is a TraceState, or EmptyState without."""

    momentum: _S = field(key="0")
    learning_rate: _R = field(key="1")


_TWINS: Final = Twins(
    names={
        EmptyState: "EmptyState",
        AdamState: "ScaleByAdamState",
        MixedAdamState: "ScaleByAdamState",
        AmsgradState: "ScaleByAmsgradState",
        BeliefState: "ScaleByBeliefState",
        LionState: "ScaleByLionState",
        RmsState: "ScaleByRmsState",
        RssState: "ScaleByRssState",
        TraceState: "TraceState",
        EmaState: "EmaState",
        FactoredState: "FactoredState",
        ScheduleState: "ScaleByScheduleState",
        WeightDecayScheduleState: "WeightDecaySchedule",
        ZeroNansState: "ZeroNansState",
        ApplyIfFiniteState: "ApplyIfFiniteState",
        MultiStepsState: "MultiStepsState",
        MaskedNode: "MaskedNode",
        MaskedState: "MaskedState",
        PartitionState: "PartitionState",
        WrappedScheduleState: "WrappedScheduleState",
        InjectStatefulHyperparamsState: "InjectStatefulHyperparamsState",
    },
    beside={"WeightDecaySchedule": "add_decayed_weights", "WrappedScheduleState": "WrappedSchedule"},
)


def twin_names() -> Mapping[type, str]:
    """The classes here, each with the name of the class of optax that it stands for."""
    return _TWINS.names


@overload
def from_optax(state: object, cls: type[_T]) -> _T: ...
@overload
def from_optax(state: object) -> Any: ...
def from_optax(state: object, cls: Any = None) -> Any:
    """A tree of optax's states as a tree of twins; leaves, params and their containers stay the same objects.

    `cls` is the type of the result, and an error says where the state is of another. Without it chains are tuples, and
    every class has its usual twin. A class of optax that has no twin is an error, unless `cls` has it in its place:
    `Annotated[ThatClass, Fields(...)]`. NamedTuples of others are kept.
    """
    return _TWINS.from_optax(state, Any if cls is None else cls)


def to_optax(state: object) -> Any:
    """A tree of twins as the tree of optax's states that it was made from, or would be."""
    return _TWINS.to_optax(state)
