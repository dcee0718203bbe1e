"""`**` in key maps: a subtree, or the rest; what is odd is refused; maps are put below names, and take part in every save."""

from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import Array
from jaxtyping import Float32, Int32, Key

from tests.runtime.equality import same
from treaty.generator import load
from treaty.runtime import KeyMapError, StateMismatchError, from_state_dict, inspect, restore, save, to_state_dict
from treaty.runtime._keymaps.apply import to_fields, to_stored
from treaty.schema import Dims, Keys, SchemaError, migration, state
from treaty.schema.keymap import KeyMap, Rule


@state
class Linear:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"] | None


@state
class Params:
    layers: Annotated[list[Linear], Dims("d_in", "d_out")]
    blocks: Annotated[tuple[Linear, ...], Keys("block_{i}"), Dims("d_in", "d_out")]
    named: dict[str, Annotated[Linear, Dims("d_in", "d_out")]]


@state
class Both:
    kernel: Float32[Array, "d_in d_out"]
    bias: Float32[Array, "d_out"]


@state
class Stacked:
    blocks: Annotated[tuple[Both, ...], Keys("block_{i}"), Dims(...)]


@state
class Train:
    step: Int32[Array, ""]
    params: Annotated[Params, Dims(...)]
    rng: Key[Array, ""]
    extra: Any


load(Train)
# What somebody saved as (params with boxes, a list of other things), every kernel transposed.
TUPLE = KeyMap(
    [
        Rule("0.**.kernel.value", "params.**.kernel", "d_out d_in -> d_in d_out"),
        Rule("0.**.value", "params.**"),
        Rule("1.0", "step"),
        Rule("**", "**"),
    ],
    of=Train,
)


def problems(*call: Any) -> tuple[str, ...]:
    function, *arguments = call
    with pytest.raises((KeyMapError, SchemaError)) as caught:
        function(*arguments)
    error: Any = caught.value
    found: tuple[str, ...] = error.problems
    return found


def test_a_subtree_and_the_rest() -> None:
    a, b, c, d = (np.full(2, i, np.float32) for i in range(4))
    keymap = KeyMap([Rule("0.**.value", "params.**"), Rule("lr", "rate"), Rule("**", "**")])
    tensors = {"0.x.y.value": a, "0.z.value": b, "lr": c, "0.z.other": d}

    fields = to_fields(keymap, tensors)

    assert fields == {"params": {"x": {"y": a}, "z": b}, "rate": c, "0": {"z": {"other": d}}}
    assert to_stored(keymap, fields) == tensors


def test_the_rest_may_be_empty_and_a_subtree_may_not() -> None:
    assert to_fields(KeyMap([Rule("a", "b"), Rule("**", "**")]), {"a": 1}) == {"b": 1}
    assert problems(to_fields, KeyMap([Rule("a.**", "b.**"), Rule("**", "**")]), {"x": 1}) == (
        "expected something for each rule, got nothing for 'a.**'",
    )


def test_two_subtrees_of_one_name_are_refused() -> None:
    keymap = KeyMap([Rule("a.**", "b.**"), Rule("**.w", "c.**")])
    assert problems(to_fields, keymap, {"a.w": 1, "a.v": 1, "w.w": 1}) == (
        "expected one rule, got a.** <-> b.** and **.w <-> c.** for 'a.w'",
    )


def test_what_is_ignored_is_not_the_rest() -> None:
    keymap = KeyMap([Rule("**", "**")], ignore_stored=["opt.**"], ignore_fields=["**.cache"])
    assert to_fields(keymap, {"w": 1, "opt.m": 2, "opt.n.v": 3}) == {"w": 1}
    assert to_stored(keymap, {"w": 1, "a": {"b": {"cache": 2}}}) == {"w": 1}


def test_a_key_with_a_dot_has_no_way_back() -> None:
    assert problems(to_stored, KeyMap([Rule("**", "p.**")]), {"p": {"a.b": 1}}) == (
        "expected keys without dots below **, got 'a.b' at $.p['a.b']; write a rule for it",
    )


@pytest.mark.parametrize(
    ("stored", "field", "message"),
    [
        ("h.{i", "h", "expected a placeholder such as {i}, got '{' in 'h.{i'"),
        ("h.{i}}", "h[{i}]", "expected a placeholder such as {i}, got '}' in 'h.{i}}'"),
        ("h.{}", "h", "expected a placeholder such as {i}, got '{' in 'h.{}'"),
        ("h", "h{", "expected a placeholder such as {i}, got '{' in 'h{'"),
        ("h.*", "h.*", "expected ** as a whole key, for all below, got '*' in 'h.*'"),
        ("h**", "h.**", "expected ** as a whole key, for all below, got '*' in 'h**'"),
        ("h", "h['a.**']", "expected ** as a whole key, for all below, got '*' in \"h['a.**']\""),
        ("h.**", "h", "expected ** on both sides or on none, got 'h.**' and 'h'"),
        ("h", "**", "expected ** on both sides or on none, got 'h' and '**'"),
        ("**.h.**", "**", "expected at most one **, got '**.h.**'"),
    ],
)
def test_braces_and_stars_are_never_taken_literally(stored: str, field: str, message: str) -> None:
    assert problems(Rule, stored, field) == (message,)


def test_sizes_of_no_axis_are_refused() -> None:
    rule = Rule("q", "q", "(h d) m -> m h d")
    assert problems(lambda: KeyMap([rule], sizes={"d_haed": 4})) == (
        "expected a name of an axis, one of d, h, m, got 'd_haed' in sizes",
    )
    assert problems(lambda: KeyMap([rule]).with_sizes(x=4)) == (
        "expected a name of an axis, one of d, h, m, got 'x' in sizes",
    )


def test_a_map_below_other_names() -> None:
    part = KeyMap(
        [Rule("w", "kernel"), Rule(("q", "k"), "[0].qk", axis=0), Rule("**", "**")],
        ties={"v": "w"},
        ignore_stored=["mask"],
        ignore_fields=["$.cache"],
    )
    assert part.with_prefix("model", "params.net") == KeyMap(
        [
            Rule("model.w", "params.net.kernel"),
            Rule(("model.q", "model.k"), "params.net[0].qk", axis=0),
            Rule("model.**", "params.net.**"),
        ],
        ties={"model.v": "model.w"},
        ignore_stored=["model.mask"],
        ignore_fields=["params.net.cache"],
    )
    assert part.with_prefix() == KeyMap(part.rules, ties=part.ties, ignore_stored=["mask"], ignore_fields=["cache"])


def test_migrations_take_subtrees_without_stars() -> None:
    assert problems(lambda: migration(Linear, 1, moves=[Rule("a.**", "b.**")])) == (
        "migration(Linear, 1): expected rules without **, got a.** <-> b.**; "
        "a rule of a migration takes all below its names as it is",
    )


class TestCheck:
    """What a restore would stumble over, before there is a checkpoint."""

    def test_a_map_that_fits(self) -> None:
        TUPLE.check()
        KeyMap([Rule("**", "**")]).check(Train)

    def test_misspelt_fields_with_the_nearest(self) -> None:
        rules = [
            Rule("a", "stepp"),
            Rule("{i}.b", "params.layer[{i}].kernel"),
            Rule("c.{i}", "params.block_{i}.kernal"),
            Rule("d.**", "param.**"),
            Rule("e", "params.named"),
            Rule("f", "rng.bits"),
            Rule("g", "extra.anything.at.all"),
            Rule("h.{i}", "params.block_{i}.bias", "a b -> b a"),
        ]
        assert problems(KeyMap(rules).check, Train) == (
            "expected a field of Train, got stepp; there is step",
            "expected a field of Train, got params.layer[{i}].kernel; there is params.layers[{i}].kernel, "
            "params.named[{i}].kernel, params.layers[{i}].bias",
            "expected a field of Train, got params.block_{i}.kernal; there is params.block_{i}.kernel, "
            "params.block_{i}.bias, params.layers[{i}].kernel",
            "expected a field of Train, got param.**; there is params.**, params.named.**, params.layers.**",
            "expected a leaf of Train, got all of params.named; write params.named.** for what is below",
            "expected a field of Train, got rng.bits; there is rng.impl, rng.data",
            "expected a layout of 1 axes, got 2 for params.block_{i}.bias",
            "expected a rule for each field of Train, got none for step",
            "expected a rule for each field of Train, got none for params.layers[{i}].kernel",
            "expected a rule for each field of Train, got none for rng.impl",
            "expected a rule for each field of Train, got none for rng.data",
        )

    def test_without_a_class(self) -> None:
        assert problems(KeyMap([Rule("a", "b")]).check) == (
            "expected the class whose fields these are, got none: check(Params), or KeyMap(..., of=Params)",
        )

    def test_the_class_is_no_part_of_the_data(self) -> None:
        assert "of" not in TUPLE.to_json()
        assert KeyMap.from_json(TUPLE.to_json()) == TUPLE
        assert problems(KeyMap.from_json, '{"rules": [], "of": "x"}')[0].endswith("got 'of' at the key map")


def linear(start: float) -> Linear:
    kernel = jnp.arange(6.0).reshape(2, 3) + start
    return Linear(kernel=kernel, bias=jnp.full(3, float(start)) if start % 2 else None)


def train(layers: int = 2, blocks: int = 1, names: tuple[str, ...] = ("a", "b")) -> Train:
    params = Params(
        layers=[linear(i) for i in range(layers)],
        blocks=tuple(linear(10 + i) for i in range(blocks)),
        named={name: linear(20 + i) for i, name in enumerate(names)},
    )
    return Train(step=jnp.int32(7), params=params, rng=jax.random.key(3), extra={"x": "text", "y": {"z": 2.5}})


PATHS = ("x.msgpack", "x.msgpack.gz", "x.safetensors", "x.npz", "directory")


@pytest.mark.parametrize("name", PATHS)
def test_a_save_of_every_format_takes_a_map(name: str, tmp_path: Path) -> None:
    saved = Params(layers=[linear(1), linear(3)], blocks=(linear(5),), named={"a": linear(7)})
    keymap = KeyMap([Rule("net.**.kernel", "**.kernel", "i o -> o i"), Rule("net.**", "**")], of=Params)
    load(Params)

    save(tmp_path / name, saved, keymap=keymap)

    same(restore(tmp_path / name, Params, keymap=keymap), saved)
    with pytest.raises(StateMismatchError, match="net"):
        restore(tmp_path / name, Params)


def test_state_dicts_take_a_map() -> None:
    state = to_state_dict(train(), keymap=TUPLE)

    assert state["0"]["layers"]["1"]["kernel"]["value"].shape == (3, 2)
    assert isinstance(state["0"]["layers"]["1"]["kernel"]["value"], np.ndarray)
    same(from_state_dict(Train, state, keymap=TUPLE), train())
    same(from_state_dict(train(), state, keymap=TUPLE), train())
    with pytest.raises(KeyMapError, match=r"expected axes 'd_out d_in' with d_in=4, got float32\[3, 2\] at '0.layers"):
        from_state_dict(Train, state, keymap=TUPLE, dims={"d_in": 4})


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        (
            [Rule("h.{i}.w", "block_{i}.kernel", "o a -> a o"), Rule("h.{i}.b", "block_{i}.bias")],
            {"h.0.w": (3, 2), "h.1.w": (3, 2), "h.0.b": (3,), "h.1.b": (3,)},
        ),
        (
            [Rule("w", "block_{i}.kernel", "i o a -> a o"), Rule("b", "block_{i}.bias", "i o -> o")],
            {"w": (2, 3, 2), "b": (2, 3)},
        ),
    ],
)
@pytest.mark.parametrize("path", ["run.safetensors", "run"])
def test_spread_items_are_fields_of_rules(
    rules: list[Rule], names: dict[str, tuple[int, ...]], path: str, tmp_path: Path
) -> None:
    keymap = KeyMap(rules, of=Stacked)
    keymap.check()
    load(Stacked)
    saved = Stacked(
        blocks=tuple(Both(kernel=jnp.arange(6.0).reshape(2, 3) + i, bias=jnp.full(3, 1.0 * i)) for i in (5, 7))
    )

    save(tmp_path / path, saved, keymap=keymap)

    assert {".".join(leaf.path): leaf.shape for leaf in inspect(tmp_path / path).leaves} == names
    same(restore(tmp_path / path, Stacked, keymap=keymap), saved)
    assert problems(KeyMap([Rule("h.{i}.w", "blok_{i}.kernel"), rules[1]]).check, Stacked) == (
        "expected a field of Stacked, got blok_{i}.kernel; there is block_{i}.kernel, block_{i}.bias",
    )


def test_sizes_of_axes_come_from_dims() -> None:
    @state
    class Heads:
        query: Float32[Array, "m h d"]

    load(Heads)
    keymap = KeyMap([Rule("q", "query", "(h d_head) m -> m h d_head")])
    flat = {"q": np.arange(24, dtype=np.float32).reshape(8, 3)}
    assert from_state_dict(Heads, flat, keymap=keymap, dims={"d_head": 4}).query.shape == (3, 2, 4)
    with pytest.raises(Exception, match="d_haed"):
        from_state_dict(Heads, flat, keymap=keymap, dims={"d_head": 4, "d_haed": 4})


NAMES = st.lists(st.sampled_from(["a", "b", "conv 1", "0", "kernel"]), unique=True, max_size=2).map(tuple)


@given(
    st.integers(0, 2),
    st.integers(0, 2),
    NAMES,
    st.sampled_from([TUPLE, TUPLE.with_prefix("deep"), KeyMap([Rule("all.**", "**")])]),
)
def test_with_a_map_there_and_back_is_the_identity(
    layers: int, blocks: int, names: tuple[str, ...], keymap: KeyMap
) -> None:
    whole = train(max(layers, 1), blocks, names)
    same(from_state_dict(Train, to_state_dict(whole, keymap=keymap), keymap=keymap), whole)
