"""What does not fit is an error, whatever was met before; and what was remembered never answers for another tree."""

from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax import Array
from jaxtyping import Float32, Int32

from treaty.generator import load
from treaty.runtime import StateMismatchError, TreatyError, from_live, to_live
from treaty.schema import Keys, field, state


@state
class Leaf:
    w: Float32[Array, "n"]


@state
class Rated:
    w: Float32[Array, "n"]
    rate: float = field(static=True)


@state
class Sized:
    w: Float32[Array, "n"]
    sizes: tuple[int, ...] = field(static=True)


@state
class Paired:
    w: Float32[Array, "n"]
    sizes: tuple[int, int] = field(static=True)


@state
class Titled:
    w: Float32[Array, "n"]
    title: str = field(static=True)


@state
class Scalars:
    step: Int32[Array, ""]
    ratio: float
    name: str


@state
class Layers:
    layers: tuple[Leaf, ...]


@state
class Spread:
    blocks: Annotated[tuple[Leaf, ...], Keys("block_{i}")]


@state
class ByName:
    leaves: dict[str, Leaf]


for cls in (Rated, Sized, Paired, Titled, Scalars, Layers, Spread, ByName):
    load(cls)
W = jnp.arange(3.0)


class Static(eqx.Module):
    w: Any
    rate: Any = eqx.field(static=True)


def lines(call: Any, *args: Any) -> list[str]:
    with pytest.raises(TreatyError) as raised:
        call(*args)
    return str(raised.value).splitlines()


def leaf(value: float = 0) -> dict[str, Array]:
    return {"w": W + value}


class TestRemembered:
    """Two treedefs are equal whose keys or static values are equal, which 0.0 and -0.0 are."""

    def test_static_values_are_read_each_time(self) -> None:
        found = [from_live(Rated, Static(W, rate)).rate for rate in (0.0, -0.0, 0.0)]
        assert [*map(str, found)] == ["0.0", "-0.0", "0.0"]
        like = {"w": W, "rate": 5.0}
        assert [str(to_live(Rated(w=W, rate=rate), like)["rate"]) for rate in (0.0, -0.0)] == ["0.0", "-0.0"]

    def test_true_does_not_pass_for_one(self) -> None:
        assert from_live(Rated, Static(W, 1.0)).rate == 1.0
        assert lines(from_live, Rated, Static(W, True))[0].startswith("expected float, got bool True at $.rate")

    def test_keys_that_are_equal_have_one_text(self) -> None:
        assert [list(from_live(ByName, {"leaves": {key: leaf()}}).leaves) for key in (1, True, 1.0, "1")] == [["1"]] * 4

    def test_leaves_of_another_shape_dtype_or_kind(self) -> None:
        tree = {"step": 1, "ratio": 0.5, "name": "a"}
        assert [from_live(Scalars, tree).ratio for _ in range(2)] == [0.5, 0.5]
        for key, value, said in (
            ("step", 2**31, "expected int32[], got int 2147483648 at $.step (tree['step'])"),
            ("step", 1.0, "expected int32[], got float 1.0 at $.step (tree['step'])"),
            ("step", True, "expected int32[], got bool True at $.step (tree['step'])"),
            ("step", jnp.zeros(2, jnp.int32), "expected int32[], got int32[2] at $.step (tree['step'])"),
            ("ratio", "a", "expected float, got str 'a' at $.ratio (tree['ratio'])"),
            ("name", 1, "expected str, got int 1 at $.name (tree['name'])"),
        ):
            assert lines(from_live, Scalars, {**tree, key: value}) == [said]

    def test_an_int_for_a_float_is_a_float(self) -> None:
        tree = {"step": np.int32(1), "ratio": 2, "name": "a"}
        assert [type(from_live(Scalars, tree).ratio) for _ in range(2)] == [float, float]

    def test_an_array_where_there_was_none_to_declare(self) -> None:
        tree = {**leaf(), "more": 1}
        from_live(Leaf, tree)
        assert lines(from_live, Leaf, {**tree, "more": W})[0] == (
            "expected no such key in Leaf, got float32[3] at $.more (tree['more'])"
        )


class TestMoreOrFewerItems:
    """A model of three layers never takes two and keeps the third as it was initialised."""

    def test_of_a_tuple(self) -> None:
        like = {"layers": [leaf(), leaf(), leaf()]}
        for count, index, one in ((2, 2, "nothing"), (4, 3, "float32[3]")):
            obj = Layers(layers=tuple(Leaf(**leaf()) for _ in range(count)))
            expected = "nothing" if count > 3 else "float32[3]"
            place = "like['layers']" if count > 3 else "like['layers'][2]['w']"
            assert lines(to_live, obj, like) == [
                f"expected {expected} as in like, got {one} at $.layers[{index}].w ({place})"
            ]

    def test_of_items_that_are_spread(self) -> None:
        like = {f"block_{i}": leaf() for i in range(3)} | {"other": W}
        obj = Spread(blocks=(Leaf(**leaf(1)), Leaf(**leaf(2))))
        assert lines(to_live, obj, like) == [
            "expected float32[3] as in like, got nothing at $.block_2.w (like['block_2']['w'])"
        ]

    def test_of_static_items_that_are_leaves_there(self) -> None:
        like = {"w": W, "sizes": [1, 2]}
        assert to_live(Sized(w=W, sizes=(8, 9)), like)["sizes"] == [8, 9]
        assert len(lines(to_live, Sized(w=W, sizes=(8, 9, 10)), like)) == 1
        assert lines(to_live, Sized(w=W, sizes=(8,)), like) == [
            "expected int 2 as in like, got nothing at $.sizes[1] (like['sizes'][1])"
        ]


class TestStaticTuples:
    """A static field may hold a tuple, which is a dict of its items in a state dict."""

    def test_of_an_instance_of_a_class_of_ours(self) -> None:
        for sizes in ((8, 9), ()):
            found = from_live(Sized, Sized(w=W, sizes=sizes))
            assert (found.w is W, found.sizes) == (True, sizes)
        wrong = Sized(w=W, sizes=(8, 0.5))  # type: ignore[arg-type]
        assert lines(from_live, Sized, wrong) == ["expected int, got float 0.5 at $.sizes[1] (tree.sizes)"]

    def test_of_a_module(self) -> None:
        class Module(eqx.Module):
            w: Any
            sizes: Any = eqx.field(static=True)

        for sizes in ((8, 9), (), (7,)):
            tree = Module(W, sizes)
            found = from_live(Sized, tree)
            assert found.sizes == sizes
            assert to_live(found, Module(W + 1, (1,))).sizes == (1,)
        assert lines(from_live, Sized, Module(W, ("a",))) == ["expected int, got str 'a' at $.sizes[0] (tree)"]
        assert from_live(Paired, Module(W, (1, 2))).sizes == (1, 2)
        assert lines(from_live, Paired, Module(W, (1,))) == ["expected int, got nothing at $.sizes[1] (tree)"]
        assert lines(from_live, Paired, Module(W, (1, 2, 3)))[0] == (
            "expected no such key in a tuple of 2, got int 3 at $.sizes['2'] (tree)"
        )


def test_a_static_value_where_like_has_an_array() -> None:
    assert lines(to_live, Titled(w=W, title="x"), {"w": W, "title": jnp.zeros(2)}) == [
        "expected float32[2] as in like, got str 'x' at $.title (like['title'])"
    ]


def test_properties_are_not_run() -> None:
    class Module(nnx.Module):
        def __init__(self) -> None:
            self.w = nnx.Param(W)

        @property
        def title(self) -> str:
            raise RuntimeError("a property was run")

    assert lines(from_live, Titled, Module()) == ["expected str, got nothing at $.title (tree)"]


def test_only_takes_kinds_of_variables() -> None:
    assert lines(lambda: from_live(Leaf, leaf(), only=int)) == [
        "only=<class 'int'>: expected a subclass of nnx.Variable, or a tuple of them, such as nnx.Param"
    ]


def test_a_tree_that_is_a_leaf() -> None:
    with pytest.raises(StateMismatchError, match=r"expected Leaf, got float32\[3\]"):
        from_live(Leaf, W)


def test_a_module_that_jax_does_not_look_into() -> None:
    class Hidden(nnx.Module, pytree=False):
        def __init__(self) -> None:
            self.w = nnx.Param(W)

    assert "hand over nnx.state(module)" in lines(from_live, Leaf, Hidden())[-1]
    for _ in range(2):  # beside what is declared its variables would be lost, also where a function was before
        assert from_live(Leaf, {"w": W, "rest": jax.nn.relu}).w is W
        found = lines(from_live, Leaf, {"w": W, "rest": Hidden()})
        assert found[0].startswith("expected no such key in Leaf, got ")
        assert "hand over nnx.state(module)" in found[-1]


def test_an_unhashable_structure_is_walked_each_time() -> None:
    class Config(eqx.Module):
        w: Any
        options: Any = eqx.field(static=True)

    for _ in range(2):
        tree = Config(W, {"a": [1]})
        assert to_live(from_live(Leaf, tree), tree).w is W


def test_a_number_of_like_stays_a_number() -> None:
    like = {"step": 0, "ratio": np.float64(0), "name": "b"}
    obj = from_live(Scalars, {"step": np.int32(3), "ratio": 0.5, "name": "a"})
    back = to_live(obj, like)
    assert back == {"step": 3, "ratio": 0.5, "name": "a"}
    assert [type(back[key]) for key in ("step", "ratio")] == [int, np.float64]
    assert lines(to_live, obj, {**like, "step": 0.0}) == [
        "expected float 0.0 as in like, got int32[] at $.step (like['step'])"
    ]


def test_donated_arrays_of_like_need_not_be_there() -> None:
    gone = jnp.arange(3.0)
    gone.delete()
    assert to_live(Leaf(w=W), {"w": gone})["w"] is W
    assert jax.tree.leaves(to_live(Leaf(w=np.zeros(3, np.float32)), {"w": gone}))[0].sum() == 0  # type: ignore[arg-type]
