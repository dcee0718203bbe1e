"""The twins of optax's states: nothing is lost on the way to one, to a state dict, and back to optax."""

import subprocess
import sys
from collections import OrderedDict
from functools import cache
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, assert_type

import attrs
import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import Array
from jaxtyping import Float32, Int32

from tests.generated.optimizers import CASES, NamedChain, Weights, same, same_structure, train, trained
from treaty.generator import load
from treaty.runtime import StateMismatchError, abstract, from_state_dict, to_state_dict
from treaty.schema import Dims, Fields, SchemaError, TreatyError, field, state
from treaty.schema.library.optax import (
    Adam,
    AdamState,
    AdamW,
    Chain,
    EmptyState,
    LionState,
    MaskedNode,
    MaskedState,
    MultiStepsState,
    ScheduleState,
    TraceState,
    from_optax,
    to_optax,
)

_P = TypeVar("_P")
every_optimizer = pytest.mark.parametrize("name", CASES, scope="module")  # tests of one optimizer run in a row


@attrs.frozen
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


KernelOnly = Annotated[Linear, Fields(kernel=Float32[Array, "d_in d_out"], bias=MaskedNode)]

load(Linear)  # which makes it a pytree


ONLY_KERNEL: Any = jax.tree.map(lambda array: array.ndim == 2, abstract(Linear, d_in=4, d_out=3))


def linear() -> Linear:
    return Linear(kernel=jnp.ones((4, 3)), bias=jnp.ones(3))


def stored(twins: Any, cls: Any) -> Any:
    """The state dict of a tree of twins with its arrays on the host, as a checkpoint has them."""
    return jax.tree.map(np.asarray, to_state_dict(MaskedState(inner_state=twins), generated(cls))["inner_state"])


def restored(state_dict: Any, cls: Any) -> Any:
    return from_state_dict(generated(cls), {"inner_state": state_dict}).inner_state


@cache
def generated(cls: Any) -> Any:
    """A class around the type, with its code: a tuple has none of its own, but a class with a tuple in it has."""
    holder = MaskedState[cls]
    load(holder)
    return holder


@every_optimizer
def test_a_state_comes_back_from_its_twins_as_it_was(name: str) -> None:
    _, opt = trained(name)

    assert same(to_optax(from_optax(opt)), opt)
    assert same(to_optax(from_optax(opt, CASES[name].cls)), opt)


@every_optimizer
def test_a_state_comes_back_from_a_state_dict_as_it_was(name: str) -> None:
    cls = CASES[name].cls
    _, opt = trained(name)

    again = restored(stored(from_optax(opt, cls), cls), cls)

    assert same_structure(again, from_optax(opt, cls))
    assert same(to_optax(again), opt)


@every_optimizer
def test_twins_are_stored_as_flax_stores_the_states_of_optax(name: str) -> None:
    cls = CASES[name].cls
    _, opt = trained(name)

    assert same(stored(from_optax(opt, cls), cls), flax.serialization.to_state_dict(opt))


@every_optimizer
def test_what_flax_stored_of_optax_restores_as_twins(name: str) -> None:
    cls = CASES[name].cls
    _, opt = trained(name)
    by_flax = flax.serialization.msgpack_restore(flax.serialization.to_bytes(opt))

    assert same(to_optax(restored(by_flax, cls)), opt)


@every_optimizer
def test_training_goes_on_from_a_restored_state_as_if_nothing_had_happened(name: str) -> None:
    optimizer, cls, _ = CASES[name]
    params, opt = trained(name)

    again = to_optax(restored(stored(from_optax(opt, cls), cls), cls))

    assert same(train(optimizer, params, again, 2), train(optimizer, params, opt, 2))


def test_leaves_and_params_stay_the_same_objects() -> None:
    _, opt = trained("adamw")

    twin = from_optax(opt, AdamW[Weights, EmptyState])

    assert twin.adam.mu is opt[0].mu
    assert to_optax(twin)[0].nu is opt[0].nu


def test_the_type_given_is_the_type_inferred() -> None:
    opt: Any = optax.adamw(1e-2).init(linear())

    assert_type(from_optax(opt, AdamW[Linear, EmptyState]), AdamW[Linear, EmptyState])
    assert_type(from_optax(opt, AdamW[Linear, EmptyState]).adam.mu.kernel, Array)
    assert_type(
        from_optax(opt, tuple[AdamState[Linear], EmptyState, EmptyState]),
        tuple[AdamState[Linear], EmptyState, EmptyState],
    )


def test_without_a_type_chains_are_tuples() -> None:
    twin = from_optax(optax.adamw(optax.constant_schedule(1e-2)).init(linear()))

    assert type(twin) is tuple
    assert [type(member) for member in twin] == [AdamState, EmptyState, ScheduleState]


def test_states_without_values_convert_too() -> None:
    shapes = jax.eval_shape(optax.adamw(1e-2).init, linear())
    load(AdamW[Linear, EmptyState])

    twin = from_optax(shapes, AdamW[Linear, EmptyState])
    expected = abstract(AdamW[Linear, EmptyState], d_in=4, d_out=3)

    assert same_structure(twin, expected)
    assert jax.tree.leaves(twin) == jax.tree.leaves(expected)


def test_twins_convert_inside_jit() -> None:
    optimizer, params = optax.adamw(1e-2), linear()
    load(AdamW[Linear, EmptyState])

    @jax.jit
    def step(twin: AdamW[Linear, EmptyState]) -> AdamW[Linear, EmptyState]:
        _, opt = optimizer.update(params, to_optax(twin), params)
        return from_optax(opt, AdamW[Linear, EmptyState])

    assert int(step(from_optax(optimizer.init(params), AdamW[Linear, EmptyState])).adam.count) == 1


def test_masked_fields_of_an_attrs_class_are_declared_with_fields() -> None:
    optimizer = optax.masked(optax.adam(1e-2), ONLY_KERNEL)
    _, opt = train(optimizer, linear(), optimizer.init(linear()), 2)
    cls = MaskedState[Adam[KernelOnly, EmptyState]]

    twin = from_optax(opt, cls)
    again = restored(stored(twin, cls), cls)

    assert isinstance(twin.inner_state.adam.mu.bias, MaskedNode)
    assert isinstance(again.inner_state.adam.mu, Linear)
    assert same(to_optax(again), opt)


def test_a_chain_of_ones_own_has_names_for_its_members() -> None:
    @state
    class Clipped(Chain, Generic[_P]):
        adamw: AdamW[_P, EmptyState] = field(key="1")  # fields stand in any order
        clip: EmptyState = field(key="0")

    opt = optax.chain(optax.clip(1.0), optax.adamw(1e-2)).init(linear())

    twin = from_optax(opt, Clipped[Linear])

    assert_type(twin, Clipped[Linear])
    assert twin.adamw.adam.nu is opt[1][0].nu
    assert same(to_optax(twin), opt)


def test_a_chain_without_numbered_keys_is_refused() -> None:
    @state
    class Clipped(Chain):
        clip: EmptyState = field(key="0")
        rate: EmptyState

    with pytest.raises(SchemaError) as caught:
        to_optax(Clipped(clip=EmptyState(), rate=EmptyState()))

    assert str(caught.value).endswith(
        'Clipped: expected the keys 0, 1 in a Chain of 2, got 0, rate; write x: EmptyState = field(key="0")'
    )


def test_named_chains_keep_their_order() -> None:
    optimizer = optax.named_chain(("clip", optax.clip(1.0)), ("adam", optax.adam(1e-2)))
    params = {"kernel": jnp.ones((4, 3)), "bias": jnp.ones(3)}
    opt = optimizer.init(params)

    twin: Any = from_optax(opt, NamedChain)
    again = to_optax(restored(stored(twin, NamedChain), NamedChain))

    assert type(twin) is OrderedDict
    assert list(twin) == ["clip", "adam"]
    assert same(to_optax(twin), opt)
    assert same(train(optimizer, params, again, 1), train(optimizer, params, opt, 1))


def test_partitions_keep_the_order_of_their_labels() -> None:
    labels = {"kernel": "z", "bias": "a"}
    opt = optax.partition({"z": optax.sgd(1e-2), "a": optax.sgd(1e-2)}, labels).init(dict.fromkeys(labels, jnp.ones(3)))

    assert list(from_optax(opt).inner_states) == ["z", "a"]


def test_named_tuples_of_others_are_kept_and_converted_inside() -> None:
    class Wrapped(NamedTuple):
        inner: Any
        loss_scale: Any

    opt = Wrapped(optax.adam(1e-2).init(linear()), jnp.float32(2.0))

    twin = from_optax(opt)

    assert type(twin) is Wrapped
    assert isinstance(twin.inner[0], AdamState)
    assert same(to_optax(twin), opt)


def test_a_class_without_a_twin_is_an_error_that_says_what_to_declare() -> None:
    opt = optax.chain(optax.clip(1.0), optax.apply_every(2)).init(linear())

    with pytest.raises(TreatyError) as caught:
        from_optax({"opt": opt})

    assert str(caught.value) == (
        "expected a class that has a twin in treaty.schema.library.optax, got optax's ApplyEvery at $['opt'][1]; to keep "
        "optax's class, declare Annotated[ApplyEvery, Fields(count=..., grad_acc=...)] there and pass the whole type as cls"
    )


def test_a_class_without_a_twin_passes_where_the_type_has_it() -> None:
    optimizer = optax.chain(optax.apply_every(2), optax.adam(1e-2))
    _, opt = train(optimizer, linear(), optimizer.init(linear()), 2)
    kept = Annotated[optax.ApplyEvery, Fields(count=Int32[Array, ""], grad_acc=Annotated[Linear, Dims(...)])]
    cls: Any = tuple[kept, Adam[Linear, EmptyState]]

    twin = from_optax(opt, cls)

    assert isinstance(twin[1], Adam)
    assert same(to_optax(restored(stored(twin, cls), cls)), opt)


@pytest.mark.parametrize(
    ("optimizer", "cls", "message"),
    [
        (
            optax.adam(optax.constant_schedule(1.0)),
            Adam[Linear, EmptyState],
            "expected optax's EmptyState, for EmptyState, got optax's ScaleByScheduleState at $[1]",
        ),
        (
            optax.adamw(1e-2),
            Adam[Linear, EmptyState],
            "expected a tuple of 2, for Adam, got a tuple of 3 at $",
        ),
        (
            optax.trace(0.9),
            AdamState[Linear],
            "expected optax's ScaleByAdamState, for AdamState, got optax's TraceState at $",
        ),
        (
            optax.trace(0.9),
            TraceState[Weights],
            "expected a dict with the keys kernel, bias, got a Linear at $.trace",
        ),
        (
            optax.chain(optax.clip(1.0)),
            tuple[EmptyState, EmptyState],
            "expected a tuple of 2, got a tuple of 1 at $",
        ),
        (
            optax.MultiSteps(optax.sgd(1e-2), 2),
            MultiStepsState[list[EmptyState], Linear, tuple[()]],
            "expected a list, got a tuple of 2 at $.inner_opt_state",
        ),
        (
            optax.adam(1e-2),
            dict[str, EmptyState],
            "expected a dict, got a tuple of 2 at $",
        ),
        (
            optax.masked(optax.trace(0.9), ONLY_KERNEL),
            MaskedState[KernelOnly],
            "expected a Linear, got optax's TraceState at $.inner_state",
        ),
    ],
)
def test_a_state_of_another_type_is_refused_where_it_differs(optimizer: Any, cls: Any, message: str) -> None:
    with pytest.raises(TreatyError) as caught:
        from_optax(optimizer.init(linear()), cls)

    assert str(caught.value) == message


def test_a_dict_is_refused_where_a_chain_is_wanted() -> None:
    opt = optax.named_chain(("a", optax.clip(1.0)), ("b", optax.clip(1.0))).init(linear())

    with pytest.raises(TreatyError, match=r"^expected a tuple of 2, got a dict with the keys a, b at \$$"):
        from_optax(dict(opt), tuple[EmptyState, EmptyState])


def test_an_optax_that_lacks_a_class_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    opt = optax.scale_by_lion().init(linear())
    twin = from_optax(opt, LionState[Linear])
    monkeypatch.delattr(optax, "ScaleByLionState")

    with pytest.raises(TreatyError, match=r"^expected an optax that has ScaleByLionState, got .*; upgrade optax$"):
        to_optax(twin)
    with pytest.raises(TreatyError, match=r"^expected a class that has a twin in .*, got optax's ScaleByLionState at"):
        from_optax(opt)


def test_an_optional_state_may_be_absent() -> None:
    cls: Any = tuple[AdamState[Linear] | None, EmptyState | None]

    twin = from_optax((None, optax.EmptyState()), cls)

    assert twin[0] is None
    assert isinstance(twin[1], EmptyState)
    assert to_optax(twin) == (None, optax.EmptyState())


def test_moments_of_other_shapes_than_each_other_do_not_restore() -> None:
    cls = AdamState[Linear]
    opt = optax.scale_by_adam().init(linear())
    state_dict = stored(from_optax(opt, cls), cls)
    state_dict["nu"]["kernel"] = np.zeros((4, 5), np.float32)

    with pytest.raises(StateMismatchError) as caught:
        from_state_dict(cls, state_dict)

    assert str(caught.value) == "expected float32[d_in=4, d_out=3], got float32[4, 5] at $.nu.kernel"


_WITHOUT_OPTAX = """
import sys
sys.modules["optax"] = None
from treaty.schema import TreatyError
from treaty.schema.library.optax import EmptyState, Sgd, from_optax, to_optax
from treaty.runtime import from_state_dict, to_state_dict

sgd = Sgd(momentum=EmptyState(), learning_rate=EmptyState())
print(to_state_dict(sgd), to_state_dict(EmptyState()))
for convert in (from_optax, to_optax):
    try:
        convert(sgd)
    except TreatyError as error:
        print(error)
"""


def test_only_conversion_needs_optax() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT_OPTAX], capture_output=True, text=True, check=False)

    missing = "expected optax to be installed, got none; run: pip install optax"
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["{'0': {}, '1': {}} {}", missing, missing]
