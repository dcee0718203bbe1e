"""The words of mismatches: what was expected, what was found, and where; all of them, in the order of the schema."""

from collections import OrderedDict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.schema import declared
from tests.schema.declared import Everything, Linear, everything, linear
from treaty.generator import load
from treaty.runtime import Mismatch, StateMismatchError, explain, from_state_dict, to_state_dict
from treaty.schema import TreatyError

load(Everything)


def with_change(*path: str, to: Any) -> dict[str, Any]:
    """The state of everything with one entry changed; `to=...` drops it."""
    state: Any = jax.tree.map(lambda leaf: leaf, to_state_dict(everything()), is_leaf=lambda x: x is None)
    at = state
    for key in path[:-1]:
        at = at[key]
    if to is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = to
    return dict(state)


@pytest.mark.parametrize(
    ("path", "to", "message"),
    [
        (("step",), jnp.int8(1), "expected int32[], got int8[] at $.step"),
        (("step",), 7, "expected int32[], got int 7 at $.step"),
        (("step",), [7], "expected int32[], got list at $.step"),
        (("step",), ..., "expected int32[], got nothing at $.step"),
        (("step",), np.zeros(1, np.int32), "expected int32[], got int32[1] at $.step"),
        (("step",), np.int64(1), "expected int32[], got numpy scalar int64 at $.step"),
        (
            ("embed",),
            np.zeros((5, 2), ">f4"),
            "expected bfloat16[vocab=5, d_model=2], got byte-swapped float32[5, 2] at $.embed",
        ),
        (
            ("blocks", "1", "up", "bias"),
            np.zeros(9, np.float32),
            "expected float32[d_out=8], got float32[9] at $.blocks[1].up.bias",
        ),
        (("blocks", "1"), None, "expected Block as a dict, got None at $.blocks[1]"),
        (("blocks", "1"), [], "expected Block as a dict, got list at $.blocks[1]"),
        (("blocks", "1"), OrderedDict(), "expected Block as a dict, got OrderedDict at $.blocks[1]"),
        (("blocks",), {}, None),
        (("blocks",), [], "expected tuple as a dict, got list at $.blocks"),
        (("opt", "count"), "1", "expected int32[], got str '1' at $.opt.count"),
        (("foreign", "mu"), 3, "expected Block as a dict, got int at $.foreign.mu"),
        (("rng",), jax.random.key(0), "expected key[2] as {impl, data}, got key<fry>[] at $.rng"),
        (("rng", "impl"), "md5", "expected key[2] as {impl, data}, got key<md5> at $.rng"),
        (("rng", "data"), np.zeros((3, 2), np.uint32), "expected key[2], got uint32[3, 2] at $.rng"),
        (("rbg", "impl"), "threefry2x32", "expected key<rbg>[] as {impl, data}, got key<threefry2x32> at $.rbg"),
        (("wide",), jnp.ones((8, 9)), "expected float8_e4m3[heads=8, d_ff=8], got float32[8, 9] at $.wide"),
        (("pair", "1"), ..., "expected Linear, got nothing at $.pair[1]"),
        (("pair", "2"), 1, "expected no such key in a tuple of 2, got int 1 at $.pair['2']"),
        (("pair",), (), "expected tuple of 2 as a dict, got tuple at $.pair"),
        (("empty", "0"), 1, "expected no such key in a tuple of 0, got int 1 at $.empty['0']"),
        (("names", "5"), jnp.ones(4), None),
        (("table", "b.c/d"), 1.5, "expected float32[m=2], got float 1.5 at $.table['b.c/d']"),
        (("table", 3), jnp.ones(2), "expected no such key in a dict[str, ...], got float32[2] at $.table['int key 3']"),
        (
            ("slots", "01"),
            np.array(1, np.int32),
            "expected no such key in a dict[int, ...], got int32[] at $.slots['01']",
        ),
        (("slots", "x"), np.array(1, np.int32), "expected no such key in a dict[int, ...], got int32[] at $.slots.x"),
        (("maybe",), 1, "expected float32[o], got int 1 at $.maybe"),
        (("call", "args"), {}, "expected float32[d_model=2], got nothing at $.call.args[0]"),
        (("call", "keywords", "by"), None, "expected float32[], got None at $.call.keywords.by"),
        (("call",), 1, "expected Partial as a dict, got int at $.call"),
        (("half",), np.float32(1), "expected numpy float16, got numpy scalar float32 at $.half"),
        (("mode",), "TEST", "expected one of TRAIN, EVAL, got str 'TEST' at $.mode"),
        (("mode",), declared.Mode.EVAL, "expected one of TRAIN, EVAL, got Mode at $.mode"),
        (("an_int",), True, "expected int, got bool True at $.an_int"),
        (("a_float",), 2**60 + 1, "expected float, got int 1152921504606846977 at $.a_float"),
        (("a_float",), 10**30 + 1, "expected float, got int a huge number at $.a_float"),
        (("a_bool",), 1, "expected bool, got int 1 at $.a_bool"),
        (("a_str",), b"x", "expected str, got bytes at $.a_str"),
        (("a_bytes",), "x" * 99, f"expected bytes, got str {'x' * 40!r} at $.a_bytes"),
        (("nothing",), 0, "expected none, got int 0 at $.nothing"),
        (("learning rate",), "1", "expected float, got str '1' at $['learning rate']"),
        (("scales", "high"), ..., "expected float, got nothing at $.scales.high"),
        (("plain", "weight"), np.zeros(6), "expected float32[n=6], got float64[6] at $.plain.weight"),
        (("tree", "left", "value"), jnp.ones(4), "expected float32[d=3], got float32[4] at $.tree.left.value"),
        (("tree", "kids"), None, "expected tuple as a dict, got None at $.tree.kids"),
        (("extra",), object(), "expected no such key in Everything, got object at $.extra"),
    ],
)
def test_one_mistake_gives_one_line(path: tuple[str, ...], to: Any, message: str | None) -> None:
    state = with_change(*path, to=to)
    found = [str(one) for one in explain(Everything, state)]
    if message is None:  # several lines follow; that there are some is enough here
        assert found or path == ("blocks",)
        return
    assert found == [message]
    with pytest.raises(StateMismatchError) as caught:
        from_state_dict(Everything, state)
    assert str(caught.value) == message
    assert caught.value.mismatches == explain(Everything, state)


def test_all_mismatches_come_in_one_error() -> None:
    state = {"kernel": jnp.zeros((2, 3, 4)), "extra": 1, 5: None}
    with pytest.raises(StateMismatchError) as caught:
        from_state_dict(Linear, state)  # type: ignore[arg-type]
    assert str(caught.value).splitlines() == [
        "expected float32[d_in=2, d_out=3], got float32[2, 3, 4] at $.kernel",
        "expected float32[d_out=3], got nothing at $.bias",
        "expected no such key in Linear, got int 1 at $.extra",
        "expected no such key in Linear, got None at $['int key 5']",
    ]


@pytest.mark.parametrize("state", [None, [], "kernel", 3, np.zeros(2, [("kernel", "f4"), ("bias", "f4")]), object()])
def test_things_that_are_no_dict(state: Any) -> None:
    with pytest.raises(StateMismatchError, match=r"expected Linear as a dict, got .* at \$$"):
        from_state_dict(Linear, state)


def test_mismatches_are_data() -> None:
    (one,) = explain(Linear, {"kernel": jnp.zeros((2, 3)), "bias": jnp.zeros(4)})
    assert one == Mismatch("float32[d_out=3]", "float32[4]", ("bias",))


def test_nothing_wrong_gives_nothing() -> None:
    assert explain(Linear, to_state_dict(linear(1, 2))) == ()
    assert explain(linear(1, 2), to_state_dict(linear(1, 2))) == ()
    assert explain(linear(1, 3), to_state_dict(linear(1, 2))) != ()


def test_dims_that_the_class_has_not_are_refused_as_a_restore_refuses_them() -> None:
    stored = to_state_dict(everything())
    for target in (Everything, everything()):
        for ask in (explain, from_state_dict):
            with pytest.raises(TreatyError) as caught:
                ask(target, stored, dims={"d_modle": 2})
            assert str(caught.value).startswith(f"{declared.__name__}:Everything has no dim 'd_modle'; its dims: ")
    with pytest.raises(TreatyError, match="expected an int"):
        explain(Everything, stored, dims={"d_model": "2"})  # type: ignore[dict-item]
