"""Restoring into a template: what must be equal, and that every refusal says why."""

import math
from collections import OrderedDict
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jaxtyping import Float32, PyTree

from treaty.generator import load
from treaty.runtime import (
    StateMismatchError,
    explain,
    from_bytes,
    from_state_dict,
    restore,
    save,
    to_bytes,
    to_state_dict,
)
from treaty.schema import Dims, Fields, field, state


@state
class Options:
    w: Float32[Array, "d"]
    rate: float = field(static=True, default=math.nan)
    rates: tuple[float, ...] = field(static=True, default=())
    pair: tuple[complex, np.float32] = field(static=True, default=(0j, np.float32(0)))


@state
class Outer:
    parts: Annotated[list[Options], Dims(None)]
    table: dict[str, Float32[Array, "d"]]
    rest: PyTree = None


load(Outer)


def nan() -> float:
    return float("nan")  # another object each time: a tuple compares by identity first


def options(**values: Any) -> Options:
    return Options(w=jnp.ones(2), **values)


def test_a_static_nan_equals_a_nan_wherever_it_is() -> None:
    def value() -> Outer:
        many = {"rate": nan(), "rates": (1.0, nan()), "pair": (complex(nan(), 1), np.float32("nan"))}
        return Outer(parts=[options(**many), options()], table={})

    restored = from_state_dict(value(), to_state_dict(value()))
    assert math.isnan(restored.parts[0].rates[1])
    assert math.isnan(from_bytes(value(), to_bytes(value())).parts[0].rate)
    assert explain(value(), to_state_dict(value())) == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 1.0}, "expected nan as in the template, got 1.0 at $.parts[0].rate"),
        (
            {"rates": (nan(), 1.0)},
            "expected {'0': 1.0, '1': nan} as in the template, got {'0': nan, '1': 1.0} at $.parts[0].rates",
        ),
        (
            {"pair": (complex(1, nan()), np.float32(0))},
            "expected {'0': (nan+1j), '1': np.float32(0.0)} as in the template, "
            "got {'0': (1+nanj), '1': np.float32(0.0)} at $.parts[0].pair",
        ),
    ],
)
def test_a_nan_equals_nothing_else(change: Any, message: str) -> None:
    like = {"rate": nan(), "rates": (1.0, nan()), "pair": (complex(nan(), 1), np.float32(0))}
    template = Outer(parts=[options(**like)], table={})
    stored = to_state_dict(Outer(parts=[options(**{**like, **change})], table={}))
    with pytest.raises(StateMismatchError) as caught:
        from_state_dict(template, stored)
    assert str(caught.value).splitlines()[0] == message


def outer(rest: Any = None, table: Any = None) -> Outer:
    return Outer(parts=[], table={"a": jnp.ones(2)} if table is None else table, rest=rest)


@pytest.mark.parametrize(
    ("template", "stored", "message"),
    [
        ({"a": 1}, {"b": 1}, "expected the keys a as in the template, got b at $.rest"),
        ({"x": [1, 2]}, {"x": [1, 2, 3]}, "expected the keys 0, 1 as in the template, got 0, 1, 2 at $.rest.x"),
        ({"x": (1, 2)}, {"x": 1}, "expected the keys 0, 1 as in the template, got int 1 at $.rest.x"),
        ({"x": 1}, {"x": {}}, "expected int 1 as in the template, got dict at $.rest.x"),
        (jnp.ones(2), jnp.ones(3), "expected float32[2] as in the template, got float32[3] at $.rest"),
        (None, 1, "expected None as in the template, got int 1 at $.rest"),
        ({"a": jnp.ones(2)}, None, "expected the keys a as in the template, got None at $.rest"),
    ],
)
def test_an_untyped_subtree_unlike_the_template_is_told(template: Any, stored: Any, message: str) -> None:
    with pytest.raises(StateMismatchError) as caught:
        from_state_dict(outer(template), to_state_dict(outer(stored)))
    assert str(caught.value) == message
    assert [str(one) for one in explain(outer(template), to_state_dict(outer(stored)))] == [message]


def test_an_untyped_subtree_may_hold_other_values_than_the_template() -> None:
    restored = from_state_dict(outer({"x": (1, 2.0), "y": "a"}), to_state_dict(outer({"x": (3, 4.0), "y": "b"})))
    assert restored.rest == {"x": (3, 4.0), "y": "b"}


def test_other_keys_than_the_template_has_are_told() -> None:
    stored = to_state_dict(outer(table={"b": jnp.ones(2)}))
    with pytest.raises(StateMismatchError) as caught:
        from_state_dict(outer(), stored)
    assert str(caught.value).splitlines() == [
        "expected float32[d=2] as in the template, got nothing at $.table.a",
        "expected no such key in the template, got float32[2] at $.table.b",
    ]


class Module(eqx.Module):
    w: Array
    size: int = eqx.field(static=True)


@state
class Holder:
    module: Annotated[Module, Fields(w=Float32[Array, "d"], size=int)]


load(Holder)


def test_static_fields_of_other_libraries_must_be_the_templates_too() -> None:
    template = Holder(module=Module(jnp.ones(2), 3))
    with pytest.raises(StateMismatchError) as caught:
        from_state_dict(template, to_state_dict(Holder(module=Module(jnp.ones(2), 4))))
    assert str(caught.value) == (
        "expected Module with (Missing, 3) as in the template, got Module with (Missing, 4) at $"
    )


def test_an_instance_in_an_untyped_subtree_comes_back_as_itself_in_a_template() -> None:
    template = outer({"x": options(), "y": [options()]})
    restored = from_state_dict(template, to_state_dict(outer({"x": options(), "y": [options()]})))
    assert [type(restored.rest["x"]), type(restored.rest["y"][0])] == [Options, Options]
    wrong = to_state_dict(outer({"x": options(), "y": [Options(w=jnp.ones(3))]}))
    with pytest.raises(StateMismatchError) as caught:
        from_state_dict(template, wrong)
    assert str(caught.value) == "expected float32[2] as in the template, got float32[3] at $.rest.y['0'].w"


def test_restored_values_are_pytrees_like_the_template() -> None:
    restored = from_state_dict(outer({"x": [1]}), to_state_dict(outer({"x": [2]})))
    one: Any = jax.tree.structure(restored)
    assert one == jax.tree.structure(outer({"x": [1]}))


@state
class Pair:
    pair: tuple[Float32[Array, ""], Float32[Array, ""]]
    many: Annotated[list[Options], Dims(None)]
    rest: Any = None


load(Pair)


def pair(count: int = 1, rest: Any = None) -> Pair:
    return Pair(pair=(jnp.float32(1), jnp.float32(2)), many=[options() for _ in range(count)], rest=rest)


def test_a_stored_tuple_of_more_items_is_told_and_not_cut() -> None:
    stored = to_state_dict(pair())
    stored["pair"]["2"] = jnp.float32(3)
    with pytest.raises(StateMismatchError) as caught:
        from_state_dict(pair(), stored)
    assert str(caught.value) == "expected no such key in a tuple of 2, got float32[] at $.pair['2']"


def test_a_template_with_another_number_of_items_is_told() -> None:
    for in_template, in_state in ((2, 1), (1, 2)):
        with pytest.raises(StateMismatchError) as caught:
            from_state_dict(pair(in_template), to_state_dict(pair(in_state)))
        assert str(caught.value) == (f"expected {in_template} items as in the template, got {in_state} items at $.many")


def test_an_ordered_dict_comes_back_as_one_below_any() -> None:
    value = outer(rest=OrderedDict(b=jnp.ones(2), a=OrderedDict(c=1)))
    restored = from_state_dict(value, to_state_dict(value))
    assert [type(restored.rest), type(restored.rest["a"]), list(restored.rest)] == [
        OrderedDict,
        OrderedDict,
        ["b", "a"],
    ]


def test_an_ordered_dict_in_a_template_may_stand_for_a_dict() -> None:
    value = outer(table=OrderedDict(b=jnp.ones(2), a=jnp.zeros(2)), rest={"x": OrderedDict(b=1, a=2)})
    restored = from_state_dict(value, to_state_dict(value))
    assert list(restored.table) == ["b", "a"]
    wrong = outer(table=OrderedDict(b=jnp.ones(2), a=jnp.zeros(2)), rest={"x": OrderedDict(b=1, c=2)})
    with pytest.raises(StateMismatchError) as caught:
        from_state_dict(value, to_state_dict(wrong))
    assert str(caught.value) == "expected the keys b, a as in the template, got b, c at $.rest.x"


@pytest.mark.parametrize("name", ["x.npz", "x.msgpack", "x.safetensors", "directory"])
def test_a_key_below_any_comes_back_in_a_template(tmp_path: Path, name: str) -> None:
    value = outer(rest={"rng": jax.random.key(7), "many": [jax.random.split(jax.random.key(1), 3)]})
    save(tmp_path / name, value)
    template = outer(rest={"rng": jax.random.key(0), "many": [jax.random.split(jax.random.key(0), 3)]})
    restored = restore(tmp_path / name, template)
    for got, expected in ((restored.rest["rng"], value.rest["rng"]), (restored.rest["many"][0], value.rest["many"][0])):
        assert got.dtype == expected.dtype
        assert (jax.random.key_data(got) == jax.random.key_data(expected)).all()
    assert set(restore(tmp_path / name, Outer).rest["rng"]) == {"impl", "data"}


def test_a_key_of_another_implementation_or_shape_than_the_templates_is_told() -> None:
    stored = to_state_dict(outer(rest=jax.random.key(7)))
    for template in (jax.random.key(7, impl="rbg"), jax.random.split(jax.random.key(7), 2)):
        with pytest.raises(StateMismatchError):
            from_state_dict(outer(rest=template), stored)


def test_a_template_that_is_not_as_its_class_declares_is_told() -> None:
    template: Any = Pair(pair=(jnp.float32(1), jnp.float32(2)), many=None)  # type: ignore[arg-type]
    with pytest.raises(StateMismatchError) as caught:
        from_state_dict(template, to_state_dict(pair()))
    assert str(caught.value) == "expected list, got None at $.many"
