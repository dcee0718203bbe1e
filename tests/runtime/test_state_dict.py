"""State dicts of one of everything: layout, round trips, templates, placement."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import attrs
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import Array
from jax.tree_util import Partial
from jaxtyping import Float32, Float64

from tests.schema import declared
from tests.schema.declared import Adam, Block, Everything, Linear, Mode, Moments, Tree, everything, linear
from treaty.generator import load
from treaty.runtime import CodecError, StateMismatchError, codec, explain, from_state_dict, to_state_dict
from treaty.schema import ArraySpec, TreatyError, field, state
from treaty.schema.keymap import KeyMap, Rule

load(Everything)


def structure(tree: Any) -> Any:
    return jax.tree.structure(tree)


def leaves_equal(one: Any, other: Any) -> bool:
    return structure(one) == structure(other) and all(
        type(a) is type(b) and np.array_equal(_bits(a), _bits(b))
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


def _bits(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.frombuffer(np.asarray(leaf).tobytes(), np.uint8) if isinstance(leaf, (jax.Array, np.ndarray)) else leaf


def test_layout_is_fields_by_key_and_sequences_by_number() -> None:
    state = to_state_dict(everything())
    assert list(state)[:4] == ["step", "embed", "blocks", "opt"]
    assert list(state["blocks"]) == ["0", "1", "2"]
    assert list(state["blocks"]["0"]) == ["up", "down"]
    assert list(state["pair"]) == ["0", "1"]
    assert state["empty"] == {}
    assert list(state["table"]) == ["a", "b.c/d"]
    assert list(state["slots"]) == ["-1", "10"]
    assert state["maybe"] is None
    assert list(state["moments"]) == ["mean", "var"]
    assert list(state["call"]) == ["args", "keywords"]
    assert list(state["call"]["args"]) == ["0"]
    assert list(state["call"]["keywords"]) == ["by"]
    assert state["mode"] == "EVAL"
    assert "learning rate" in state
    assert state["rbg"]["impl"] == "rbg"
    assert state["rng"]["data"].shape == (2, 2)
    assert list(state["anything"]["x"]) == ["0", "1"]
    assert state["plain"]["_count"] == 4


def test_nothing_is_copied() -> None:
    value = everything()
    state = to_state_dict(value)
    assert state["embed"] is value.embed
    assert state["plain"]["weight"] is value.plain.weight


def test_a_template_gives_back_an_equal_value() -> None:
    value = everything()
    assert leaves_equal(from_state_dict(value, to_state_dict(value)), value)


def test_a_class_gives_back_everything_but_the_containers_of_untyped_subtrees() -> None:
    value = everything()
    restored = from_state_dict(Everything, to_state_dict(value))
    assert isinstance(restored.moments, Moments)
    assert isinstance(restored.foreign, declared.Foreign)
    assert isinstance(restored.call, Partial)
    assert restored.call.func is declared.scaled
    assert restored.slots == value.slots
    assert restored.mode is Mode.EVAL
    assert restored.an_int == 2**70
    assert restored.note == "n"
    assert restored.shape == (1, 2)
    assert restored.rng.dtype == value.rng.dtype
    assert restored.rbg.dtype == value.rbg.dtype
    assert restored.anything["x"]["1"] == {"0": 1, "1": 2}
    assert isinstance(restored.plain, declared.Plain)
    assert type(restored.names) is list
    assert type(restored.blocks) is tuple


def test_host_arrays_go_to_the_device_where_the_field_says_so() -> None:
    state = {"kernel": np.ones((2, 3), np.float32), "bias": np.ones(3, np.float32)}
    restored = from_state_dict(Linear, state)
    assert isinstance(restored.kernel, jax.Array)
    assert isinstance(restored.bias, jax.Array)
    assert np.array_equal(restored.kernel, state["kernel"])


def test_into_numpy_keeps_every_array_on_the_host() -> None:
    value = linear(2, 3)
    restored = from_state_dict(Linear, to_state_dict(value), into="numpy")
    assert isinstance(restored.kernel, np.ndarray)
    assert np.array_equal(restored.kernel, value.kernel)
    with pytest.raises(TreatyError, match="into='device': expected"):
        from_state_dict(Linear, {}, into="device")


def test_device_arrays_come_to_the_host_where_the_field_says_numpy() -> None:
    state = {"_count": 1, "weight": jnp.ones(3)}
    restored = from_state_dict(declared.Plain, state)
    assert type(restored.weight) is np.ndarray


def test_numpy_scalars_stand_for_arrays_of_rank_zero() -> None:
    tree = {"count": np.int32(3), "mu": to_state_dict(declared.block(1)), "nu": to_state_dict(declared.block(1))}
    restored = from_state_dict(Adam[Block], tree)
    assert isinstance(restored.count, jax.Array)
    assert restored.count.shape == ()


def test_the_callers_dict_stays_as_it_was() -> None:
    value = everything()
    state = to_state_dict(value)
    before = structure(state)
    from_state_dict(value, state)
    assert structure(state) == before


def test_works_under_tracing_and_on_abstract_values() -> None:
    value = linear(2, 3)
    doubled = jax.jit(lambda state: from_state_dict(Linear, state))(to_state_dict(value))
    assert leaves_equal(doubled, value)
    shapes = jax.eval_shape(lambda: value)
    again = from_state_dict(Linear, to_state_dict(shapes))
    assert again.kernel.shape == (2, 3)


def test_typed_keys_are_kept_under_eval_shape() -> None:
    value = everything()
    shapes = jax.eval_shape(lambda: value.rng)
    state = codec.write_key(shapes)
    assert state["impl"] == "threefry2x32"
    assert state["data"].shape == (2, 2)


def test_a_template_of_other_shapes_is_refused() -> None:
    with pytest.raises(StateMismatchError) as caught:
        from_state_dict(linear(2, 3), to_state_dict(linear(2, 4)))
    assert str(caught.value) == (
        "expected float32[2, 3] as in the template, got float32[2, 4] at $.kernel\n"
        "expected float32[3] as in the template, got float32[4] at $.bias"
    )


def test_a_template_compares_static_fields_lengths_and_presence() -> None:
    value = everything()
    state = to_state_dict(value)
    state["note"] = "other"
    state["names"] = {"0": state["names"]["0"]}
    state["maybe"] = jnp.ones(3)
    assert [str(one) for one in explain(value, state)] == [
        "expected 2 items as in the template, got 1 items at $.names",
        "expected None as in the template, got float32[3] at $.maybe",
        "expected 'n' as in the template, got 'other' at $.note",
    ]
    with pytest.raises(StateMismatchError):
        from_state_dict(value, state)
    assert explain(Everything, state) == ()


def test_dims_given_from_outside_must_agree() -> None:
    state = to_state_dict(linear(2, 3))
    assert from_state_dict(Linear, state, dims={"d_in": 2}).kernel.shape == (2, 3)
    with pytest.raises(
        StateMismatchError, match=r"expected float32\[d_in=5, d_out=3\], got float32\[2, 3\] at \$.kernel"
    ):
        from_state_dict(Linear, state, dims={"d_in": 5})
    with pytest.raises(TreatyError, match="has no dim 'd'; its dims: d_in, d_out"):
        from_state_dict(Linear, state, dims={"d": 5})


def test_a_generic_class_is_told_apart_by_its_alias() -> None:
    value = Adam(count=jnp.int32(1), mu=declared.block(1), nu=declared.block(1))
    load(Adam[Block])
    assert to_state_dict(value, Adam[Block])["mu"]["up"]["kernel"] is value.mu.up.kernel
    load(Adam[Linear])
    with pytest.raises(CodecError, match=r"Adam is generic, and this could be any of .*; pass the one you mean as cls"):
        to_state_dict(value)


def test_float64_is_not_narrowed_in_silence() -> None:
    wide = declared_wide()
    load(wide)
    state = {"x": np.ones(2, np.float64)}
    with pytest.raises(
        TreatyError, match=r"expected float64 at \$.*, got a JAX that holds float32 \(jax_enable_x64 is off\); set it, "
    ):
        from_state_dict(wide, state)


def declared_wide() -> Any:
    @state
    class Wide:
        x: Float64[Array, "d"]

    return Wide


def test_validators_run_on_restore_and_see_device_arrays() -> None:
    @state
    class Checked:
        x: Float32[Array, "d"] = field(validator=attrs.validators.instance_of(Array))
        y: float = field(validator=attrs.validators.gt(0))

    load(Checked)
    restored = from_state_dict(Checked, {"x": np.ones(2, np.float32), "y": 1.0})
    assert isinstance(restored.x, jax.Array)
    assert jax.tree.map(lambda leaf: leaf, restored).y == 1.0
    with pytest.raises(ValueError, match="'y' must be > 0"):
        from_state_dict(Checked, {"x": np.ones(2, np.float32), "y": -1.0})


@pytest.fixture
def usual_recursion_limit() -> Iterator[None]:
    """mypy, which other tests run in this process, leaves a larger one behind."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("usual_recursion_limit")
def test_recursion_goes_as_deep_as_python_and_then_says_so() -> None:
    state: dict[str, Any] = {"value": jnp.ones(1), "left": None, "kids": {}}
    for _ in range(20):
        state = {"value": jnp.ones(1), "left": state, "kids": {}}
    assert from_state_dict(Tree, state).left is not None
    for _ in range(5000):
        state = {"value": jnp.ones(1), "left": state, "kids": {}}
    with pytest.raises(StateMismatchError, match="nesting beyond the recursion limit"):
        from_state_dict(Tree, state)


def test_a_partial_of_another_function_is_not_stored() -> None:
    value: Any = everything()
    make: Any = Partial
    value = attrs.evolve(value, call=make(max, jnp.ones(2), by=jnp.float32(1)))
    with pytest.raises(StateMismatchError, match=r"expected a Partial of .*scaled.*, got one of .*max"):
        to_state_dict(value)


def test_an_instance_of_a_subclass_is_not_cut_down() -> None:
    @state
    class Wider(Linear):
        extra: Float32[Array, "d_out"]

    wide = Wider(kernel=jnp.ones((2, 8)), bias=jnp.ones(8), extra=jnp.ones(8))
    with pytest.raises(StateMismatchError, match=r"expected Linear, got an instance of .*Wider"):
        to_state_dict(Block(up=wide, down=linear(8, 2)))


def test_dims_must_be_ints() -> None:
    wrong: Any = {"d_in": "2"}
    with pytest.raises(TreatyError, match=r"dims=\{'d_in': '2'\}: expected an int"):
        from_state_dict(Linear, to_state_dict(linear(2, 3)), dims=wrong)


def test_dtypes_that_the_device_cannot_hold() -> None:
    @state
    class Six:
        x: Annotated[Array, ArraySpec("float6_e2m3fn", "d")]

    load(Six)
    state_dict = {"x": np.zeros(2, ml_dtypes.float6_e2m3fn)}
    assert from_state_dict(Six, state_dict, into="numpy").x.shape == (2,)
    with pytest.raises(TreatyError, match="JAX cannot place arrays of float6_e2m3fn on this device"):
        from_state_dict(Six, state_dict)


def test_keys_of_long_sequences_are_right_in_every_thread() -> None:
    def numbered(count: int) -> list[str]:
        return list(codec.indexed(range(count)))

    with ThreadPoolExecutor(4) as pool:
        for count, keys in zip([5000, 9000] * 20, pool.map(numbered, [5000, 9000] * 20), strict=True):
            assert keys == [str(i) for i in range(count)]


def test_untyped_subtrees_hold_state_classes_and_refuse_keys_that_look_alike() -> None:
    value = attrs.evolve(
        untyped(everything()), anything={"linear": linear(1, 1), "moments": untyped(Moments)(1, 2)}, more=None
    )
    state_dict = to_state_dict(value)
    assert list(state_dict["anything"]["linear"]) == ["kernel", "bias"]
    assert state_dict["anything"]["moments"] == {"mean": 1, "var": 2}
    with pytest.raises(TreatyError, match="expected dict keys with different string forms"):
        to_state_dict(attrs.evolve(value, anything={1: 0, "1": 0}))


def untyped(value: Any) -> Any:
    return value


def test_a_template_gives_form_to_untyped_containers() -> None:
    value = attrs.evolve(untyped(everything()), anything=(untyped(Moments)(1, 2), [3], {"a": (4,)}, 5), more={})
    restored = from_state_dict(value, to_state_dict(value))
    assert restored.anything == value.anything
    assert isinstance(restored.anything[0], Moments)


def test_hashes_that_attrs_keeps_are_kept() -> None:
    @attrs.frozen(cache_hash=True)
    class Hashed:
        n: int

    load(Hashed)
    assert hash(from_state_dict(Hashed, {"n": 1})) == hash(Hashed(n=1))
    assert hash(jax.tree.map(lambda x: x, Hashed(n=1))) == hash(Hashed(n=1))


def _refused(instance: Any, attribute: Any, value: int) -> None:
    try:
        dict[str, int]()["limit"]
    except KeyError as error:
        raise ValueError("above the limit") from error


@state
class Limited:
    x: int = field(validator=_refused)


load(Limited)


def test_the_cause_of_an_error_of_the_users_own_is_kept() -> None:
    for into in (None, "numpy"):
        with pytest.raises(ValueError, match="above the limit") as caught:
            from_state_dict(Limited, {"x": 1}, into=into)
        assert isinstance(caught.value.__cause__, KeyError)


def test_what_is_no_state_dict_is_told_with_a_key_map_as_without() -> None:
    keymap = KeyMap([Rule("a", "x")])
    nothing: Any = None
    for options in (None, keymap):
        with pytest.raises(StateMismatchError) as caught:
            from_state_dict(Limited, nothing, keymap=options)
        assert str(caught.value) == "expected Limited as a dict, got None at $"
