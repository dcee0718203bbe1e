"""Trees of each framework: from_live and to_live lead back to the very leaves, the first time and every time after."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx, struct
from flax.core import FrozenDict
from flax.core.meta import AxisMetadata
from flax.training.train_state import TrainState
from jax import Array
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Float32, Int32, Key, UInt32

from treaty.generator import load
from treaty.runtime import TreatyError, from_live, to_live, update_live
from treaty.schema import Dims, Keys, state
from treaty.schema.library.optax import Adam, EmptyState


@state
class Kernel:
    kernel: Float32[Array, "d_in d_out"]


@state
class Affine(Kernel):
    bias: Float32[Array, "d_out"]


@state
class Weight:
    weight: Float32[Array, "d_out d_in"]
    bias: Float32[Array, "d_out"] | None


@state
class Mlp:
    layers: tuple[Weight, ...]


@state
class ScaledKernel:
    value: Float32[Array, "d_in d_out"]
    scale: Float32[Array, "d_out"]


@state
class OneLayer:
    layers: tuple[Weight]


@state
class Blocks:
    blocks: Annotated[tuple[Affine, ...], Keys("Dense_{i}"), Dims(None)]


@state
class Train:
    step: Int32[Array, ""]
    params: Blocks
    opt_state: Adam[Blocks, EmptyState]


@state
class Listed:
    layers: dict[int, Affine]


@state
class Named:
    named: dict[str, Affine]


@state
class Anything:
    state: Any


@state
class Numbers:
    step: Int32[Array, ""]
    rate: Float32[Array, ""]
    on_host: Float32[np.ndarray, "n"]
    count: int
    key: Key[Array, ""]
    words: UInt32[Array, "2"]


@state
class Pair:
    first: Kernel
    second: Annotated[Kernel | None, Dims(None)]


for cls in (Kernel, Affine, Mlp, OneLayer, ScaledKernel, Train, Listed, Named, Anything, Numbers, Pair):
    load(cls)


class Net(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(1)(nn.Dense(8)(x))


class Stack(nnx.Module):
    def __init__(self, count: int, seed: int = 0) -> None:
        self.layers = nnx.List([nnx.Linear(2, 2, rngs=nnx.Rngs(seed + i)) for i in range(count)])


class Single(nnx.Module):
    def __init__(self, array: Any) -> None:
        self.kernel = nnx.Param(array)


@struct.dataclass
class Checked:
    """Looks at its leaves when it is made, as JAX advises against."""

    kernel: Any

    def __post_init__(self) -> None:
        assert self.kernel.ndim == 2


def affine() -> dict[str, Array]:
    return {"kernel": jnp.ones((2, 3)), "bias": jnp.zeros(3)}


def linen() -> Any:
    net = Net()
    variables = net.init(jax.random.key(0), jnp.ones((1, 4)))
    create: Any = TrainState.create  # Flax does not annotate it
    return create(apply_fn=net.apply, params=variables["params"], tx=optax.adam(1e-3))


def sharded() -> dict[str, Array]:
    spec: Any = PartitionSpec
    mesh = jax.make_mesh((8,), ("x",))
    return {"kernel": jax.device_put(jnp.zeros((8, 2)), NamedSharding(mesh, spec("x")))}


FROZEN: Any = FrozenDict
TREES: dict[str, tuple[Any, Callable[[], Any]]] = {
    "a dict": (Affine, affine),
    "an OrderedDict": (Affine, lambda: OrderedDict(bias=jnp.zeros(3), kernel=jnp.ones((2, 3)))),
    "a FrozenDict": (Affine, lambda: FROZEN(affine())),
    "a TrainState of linen": (Train, linen),
    "a Partitioned array": (Kernel, lambda: {"kernel": nn.Partitioned(jnp.ones((2, 3)), names=("a", "b"))}),
    "an array with logical names": (
        Kernel,
        lambda: {"kernel": nn.LogicallyPartitioned(jnp.ones((2, 3)), names=("a", None))},
    ),
    "an nnx module": (Listed, lambda: Stack(11)),
    "an nnx state, with int keys": (Listed, lambda: nnx.state(Stack(11))),
    "a pure dict of nnx": (Listed, lambda: nnx.to_pure_dict(nnx.state(Stack(11)))),
    "an equinox module": (Mlp, lambda: eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(0))),
    "an equinox module without biases": (
        Mlp,
        lambda: eqx.nn.MLP(2, 2, 4, 1, use_bias=False, use_final_bias=False, key=jax.random.key(0)),
    ),
    "a struct that looks at its leaves": (Kernel, lambda: Checked(jnp.ones((2, 3)))),
    "haiku's names": (Named, lambda: {"named": {"mlp/~/linear_0": affine(), "mlp/~/linear_1": affine()}}),
    "empty containers": (Named, lambda: {"named": {}, "more": [(), None]}),
    "numbers, keys and host arrays": (
        Numbers,
        lambda: {
            "step": 7,
            "rate": 0.5,
            "on_host": np.arange(3, dtype=np.float32),
            "count": 2**40,
            "key": jax.random.key(1),
            "words": jax.random.PRNGKey(1),
        },
    ),
    "an array on eight devices": (Kernel, sharded),
    "a function beside arrays": (Kernel, lambda: {"kernel": jnp.ones((2, 3)), "activation": jax.nn.relu}),
}


@pytest.mark.parametrize("name", TREES)
def test_the_very_leaves_come_back(name: str) -> None:
    cls, make = TREES[name]
    tree = make()
    structure: Any  # JAX's type for it says nothing of ==
    leaves, structure = jax.tree.flatten(tree)
    for _ in range(2):
        back, again = jax.tree.flatten(to_live(from_live(cls, tree), tree))
        assert again == structure
        assert all(
            one is other or (type(one), one) == (type(other), other) for one, other in zip(back, leaves, strict=True)
        )


P = {"w": jnp.ones((4, 4)), "b": jnp.ones(4)}
OPTIMIZERS: dict[str, optax.GradientTransformation] = {
    "adamw": optax.adamw(1e-3),
    "a chain with a schedule": optax.chain(optax.clip(1.0), optax.sgd(optax.linear_schedule(1, 0, 10), momentum=0.9)),
    "MultiSteps": optax.MultiSteps(optax.adam(1e-3), 4).gradient_transformation(),
    "masked": optax.masked(optax.adam(1e-3), {"w": True, "b": False}),
    "multi_transform": optax.multi_transform({"a": optax.adam(1e-3), "b": optax.sgd(1.0)}, {"w": "a", "b": "b"}),
    "adafactor": optax.adafactor(1e-3),
    "inject_hyperparams": optax.inject_hyperparams(optax.adam)(1e-3),
    "schedule_free": optax.contrib.schedule_free_adamw(1e-3),
    "ema": optax.ema(0.9),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_states_of_optax_come_back_in_their_classes(name: str) -> None:
    live = {"state": OPTIMIZERS[name].init(P)}
    back = to_live(from_live(Anything, live), live)
    structure: Any = jax.tree.structure(back)
    assert structure == jax.tree.structure(live)
    assert [*map(id, jax.tree.leaves(back))] == [*map(id, jax.tree.leaves(live))]


def test_items_that_nothing_can_store_are_passed_over_in_a_list_too() -> None:
    """What eqx.nn.Shared leaves where a weight was, and the functions of eqx.nn.Sequential, need no field."""
    keys = jax.random.split(jax.random.key(0), 2)
    pair = (eqx.nn.Linear(3, 3, key=keys[0]), eqx.nn.Linear(3, 3, use_bias=False, key=keys[1]))
    shared = eqx.nn.Shared(pair, lambda pair: pair[1].weight, lambda pair: pair[0].weight)
    again = to_live(from_live(OneLayer, {"layers": shared.pytree}), {"layers": shared.pytree})
    assert again["layers"][0].weight is shared.pytree[0].weight
    layers: Any = {"layers": [pair[0], eqx.nn.Lambda(jax.nn.relu)]}
    assert to_live(from_live(OneLayer, layers), layers)["layers"][1].fn is jax.nn.relu
    with pytest.raises(TreatyError, match=r"expected bool True as in like, got nothing at \$\.layers\[1\]"):
        to_live(from_live(OneLayer, layers), {"layers": [pair[0], True]})


def test_keys_spread_items_beside_others() -> None:
    train = linen()
    obj = from_live(Train, train)
    assert obj.params.blocks[1].kernel is train.params["Dense_1"]["kernel"]
    assert obj.opt_state.adam.mu.blocks[0].bias is train.opt_state[0].mu["Dense_0"]["bias"]


def test_int_keys_are_in_the_order_of_numbers_each_time() -> None:
    tree = {"named": {i: affine() for i in range(12)}}
    assert [list(from_live(Named, tree).named) for _ in range(2)] == [[str(i) for i in range(12)]] * 2


def test_traced_and_abstract_leaves() -> None:
    @jax.jit
    def doubled(tree: Any) -> Any:
        obj = from_live(Affine, tree)
        return to_live(Affine(kernel=obj.kernel * 2, bias=obj.bias), tree)

    assert doubled(affine())["kernel"].sum() == 12
    abstract = jax.eval_shape(affine)
    obj = from_live(Affine, affine())
    assert from_live(Affine, abstract).kernel is abstract["kernel"]
    assert to_live(obj, abstract)["kernel"] is obj.kernel
    assert from_live(Kernel, jax.eval_shape(lambda: {"kernel": jnp.ones((2, 3))})).kernel.shape == (2, 3)


def test_an_abstract_key_is_a_key() -> None:
    tree = TREES["numbers, keys and host arrays"][1]()
    abstract = {**tree, "key": jax.eval_shape(lambda: tree["key"])}
    assert from_live(Numbers, abstract).key is abstract["key"]
    assert to_live(from_live(Numbers, tree), abstract)["key"] is tree["key"]


def test_host_arrays_go_where_those_of_like_are() -> None:
    like = sharded()
    back = to_live(Kernel(kernel=np.ones((8, 2), np.float32)), like)  # type: ignore[arg-type]
    assert back["kernel"].sharding == like["kernel"].sharding
    assert not to_live(Kernel(kernel=np.ones((2, 2), np.float32)), {"kernel": jnp.ones((2, 2))})["kernel"].committed  # type: ignore[arg-type]


def test_nnx_updates_modules_optimizers_and_streams_in_place() -> None:
    live = {"named": {"a": nnx.Linear(2, 3, rngs=nnx.Rngs(0))}}
    other = {"named": {"a": nnx.Linear(2, 3, rngs=nnx.Rngs(1))}}
    kept = live["named"]["a"].kernel
    update_live(live, from_live(Named, other))
    assert live["named"]["a"].kernel is kept
    assert kept[...] is other["named"]["a"].kernel[...]


def test_update_live_changes_nothing_where_something_does_not_fit() -> None:
    live = {"named": {"a": nnx.Linear(2, 3, rngs=nnx.Rngs(0)), "b": nnx.Linear(2, 3, rngs=nnx.Rngs(0))}}
    before = live["named"]["a"].kernel[...]
    fits, too_wide = (
        Affine(kernel=jnp.ones((2, 3)), bias=jnp.ones(3)),
        Affine(kernel=jnp.ones((2, 4)), bias=jnp.ones(4)),
    )
    with pytest.raises(
        TreatyError, match=r"expected float32\[2, 3\] as in live, got float32\[2, 4\] at \$.named.b.kernel"
    ):
        update_live(live, Named(named={"a": fits, "b": too_wide}))
    assert live["named"]["a"].kernel[...] is before


def test_update_live_needs_variables() -> None:
    with pytest.raises(TreatyError) as raised:
        update_live(affine(), from_live(Affine, affine()))
    assert (
        str(raised.value).splitlines()[-1] == "only variables of nnx can be updated in place; to_live makes a new tree"
    )


@struct.dataclass
class Scaled(AxisMetadata[Any]):
    """A box of somebody's with two children."""

    value: Any
    scale: Any

    def unbox(self) -> Any:
        return self.value * self.scale

    def replace_boxed(self, val: Any) -> "Scaled":
        return Scaled(val, self.scale)

    def add_axis(self, index: int, params: Any) -> "Scaled":
        return self

    def remove_axis(self, index: int, params: Any) -> "Scaled":
        return self


class TestBoxesOfSeveralArrays:
    def test_no_field_gets_the_array_of_another(self) -> None:
        first, scale, last = (jnp.full((2, 3), float(number)) for number in range(3))
        tree: dict[str, Any] = {"a": Scaled(first, scale), "kernel": last}
        with pytest.raises(TreatyError) as raised:
            from_live(Kernel, tree)
        assert str(raised.value).startswith("expected no such key in Kernel, got dict at $.a (tree['a'])")
        assert to_live(Kernel(kernel=first), tree)["a"].scale is scale
        assert to_live(Kernel(kernel=first), tree)["kernel"] is first

    def test_they_are_nodes_like_others(self) -> None:
        kernel, bias = jnp.ones((2, 3)), jnp.ones(3)
        found = from_live(ScaledKernel, Scaled(kernel, bias))
        assert found.value is kernel
        assert found.scale is bias


class TestSharedVariables:
    """JAX flattens a variable in two places twice, and forgets that it is one."""

    def test_one_place_is_declared_and_both_are_given(self) -> None:
        shared = Single(jnp.ones((2, 3)))
        live = {"first": shared, "again": shared}
        back: Any = to_live(Pair(first=Kernel(kernel=jnp.zeros((2, 3))), second=None), live)
        assert back["first"] is back["again"]
        assert back["first"].kernel[...].sum() == 0

    def test_two_fields_for_one_variable_are_refused(self) -> None:
        shared = Single(jnp.ones((2, 3)))
        live = {"first": shared, "second": shared}
        with pytest.raises(TreatyError) as raised:
            from_live(Pair, live)
        assert str(raised.value).splitlines() == [
            "expected no second field for the variable of $.first.kernel, got float32[2, 3] "
            "at $.second.kernel (tree['second'].kernel)",
            "declare a variable that is in two places of the module in one of them",
        ]
        obj = Pair(first=Kernel(kernel=jnp.zeros((2, 3))), second=Kernel(kernel=jnp.ones((2, 3))))
        with pytest.raises(TreatyError, match="expected one field for a variable in two places, got another"):
            update_live(live, obj)

    def test_beside_a_module_that_jax_does_not_look_into(self) -> None:
        class Hidden(nnx.Module, pytree=False):
            pass

        shared, hidden = Single(jnp.ones((2, 3))), Hidden()
        back = to_live(
            Pair(first=Kernel(kernel=jnp.zeros((2, 3))), second=None), {"first": shared, "a": shared, "h": hidden}
        )
        assert back["first"] is back["a"]
        assert back["h"] is hidden


def test_a_module_that_contains_itself_is_refused_and_python_keeps_its_stack() -> None:
    module: Any = Single(jnp.ones((2, 3)))
    module.others = nnx.List([Single(jnp.ones((2, 3)))])
    module.others[0].owner = module
    for call in (lambda: from_live(Kernel, {"model": module}), lambda: to_live(None, module)):
        with pytest.raises(TreatyError, match="expected a tree that ends, got Single, which contains itself; of such"):
            call()
    assert _depth() > 100  # JAX's own RecursionError would leave none


def _depth(so_far: int = 0) -> int:
    return so_far if so_far > 100 else _depth(so_far + 1)


def test_a_module_in_two_places_is_no_circle() -> None:
    shared = Single(jnp.ones((2, 3)))
    assert from_live(Kernel, {"kernel": shared.kernel, "other": [[], {}]}).kernel is shared.kernel[...]
    assert from_live(Pair, {"first": shared, "again": {"a": [shared]}}).second is None
