"""Factories that cannot be scaffolded: each is told what is wrong, where, and what to do."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

from tests.generator.scaffold.scaffolding import assert_comes_back, made_up_state, scaffolded
from treaty.generator._scaffold.factory import StateFactory
from treaty.schema import TreatyError


def error(call: Callable[..., Any], **dims: list[int]) -> str:
    with pytest.raises(TreatyError) as found:
        scaffolded("train:make", call, dims)
    return re.sub(r"\S+/test_bad_input\.py:\d+", "FILE:LINE", str(found.value))


def test_a_factory_that_raises() -> None:
    def make(d: int = 4) -> Any:
        raise ValueError("no\ndata")

    assert error(make) == "train:make(d=4): FILE:LINE: ValueError: no data"


def test_a_factory_that_leaves() -> None:
    def make() -> Any:
        raise SystemExit(3)

    assert error(make).endswith("SystemExit: 3")


def test_a_factory_that_looks_at_numbers() -> None:
    def make(d: int = 4) -> Any:
        w = jnp.ones(d)
        return {"w": w} if w.sum() > 0 else {}

    assert "needs the numbers in an array, and is run without any (under jax.eval_shape)" in error(make)
    assert "needs the numbers" in error(lambda: {"w": np.asarray(jnp.ones(3))})


def test_a_factory_that_allocates() -> None:
    assert error(lambda: {"tables": [np.zeros(2**23, np.float32), np.zeros(2)]}) == (
        "train:make: expected abstract arrays, got 2 real ones, the largest of 33554432 bytes at state['tables'][0]; "
        "make them inside the factory, with jax.numpy"
    )
    text, _ = scaffolded("train:make", lambda: {"table": np.zeros(10, np.float32)})
    assert 'table: Float32[np.ndarray, "d_10"]' in text


def test_leaves_that_cannot_be_stored() -> None:
    def make() -> Any:
        bad = {"names": {"a", "b"}, "words": np.array(["a"]), "source": np.random.default_rng(0), "f": jnp.tanh}
        return {"w": jnp.zeros(3), "bad": bad}

    what_to_do = "leave it out of the state, or make it a static field"
    assert error(make).splitlines() == [
        f"train:make: expected an array or a plain value, got set at state['bad']['names']; {what_to_do}",
        f"train:make: expected an array or a plain value, got Generator at state['bad']['source']; {what_to_do}",
        f"train:make: expected an array or a plain value, got <U1[1] at state['bad']['words']; {what_to_do}",
    ]


def test_a_module_that_is_hidden_from_jax() -> None:
    class Hidden(nnx.Module, pytree=False):
        def __init__(self) -> None:
            self.w = nnx.Param(jnp.zeros(3))

    assert error(lambda: {"model": Hidden()}).endswith(
        "JAX does not look into a module that is declared with pytree=False: return nnx.state(module)"
    )


def test_a_state_without_keys() -> None:
    assert error(lambda: jnp.zeros(3)) == (
        "expected a state with keys, such as a module or a dict, got one leaf; put it into a dict"
    )
    assert "got nothing" in error(lambda: jnp.tanh)


def test_parameters_without_a_default() -> None:
    def make(config: Any, d: int) -> Any: ...

    assert error(make, d=[4]) == (
        "train:make: config: expected a default for each parameter, got none; give one, or sizes: --dim config=64,96"
    )
    assert error(make, e=[4]) == "--dim e: train:make has no such parameter; its whole numbers: config, d"


class Layer(nnx.Module):
    def __init__(self, d: int = 4, *, rngs: nnx.Rngs) -> None:
        self.linear = nnx.Linear(d, 3 * d, rngs=rngs)


class Dense(linen.Module):
    d: int = 4

    @linen.compact
    def __call__(self, x: Any) -> Any:
        return linen.Dense(self.d)(x)


class Scale(eqx.Module):
    w: jax.Array

    def __init__(self, d: int = 4) -> None:
        self.w = jnp.ones((d, 2 * d))


def test_a_class_is_its_own_factory_where_it_needs_nothing_but_sizes() -> None:
    text, told = scaffolded("train:Scale", Scale)
    assert 'w: Float32[Array, "d 2*d"]' in text
    assert told == []
    assert error(Layer) == (
        "train:make: rngs: expected a default for each parameter, got none; write a function, "
        "def make_state(d: int = 4): return Layer(d=d, rngs=...), and name that"
    )
    assert error(Dense) == (
        "expected a state with keys, such as a module or a dict, got nothing that is stored; return what has arrays: "
        "of a linen module, what its init gives"
    )


def test_a_class_in_another_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nested.py").write_text("class Outer:\n    class Inner:\n        pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert StateFactory.named("nested:Outer.Inner").call.__qualname__ == "Outer.Inner"
    with pytest.raises(TreatyError, match="TARGET: type object 'Outer' has no attribute 'Other'"):
        StateFactory.named("nested:Outer.Other")


def test_many_layers_are_traced_once() -> None:
    asked: list[int] = []

    def make(d: int = 48, heads: int = 6, n_layers: int = 48) -> Any:
        asked.append(n_layers)
        return {f"block_{i}": {"w": jnp.zeros((d, heads)), "b": jnp.zeros(d)} for i in range(n_layers)}

    text, told = scaffolded("train:make", make)

    assert 'Annotated[tuple[Block, ...], Keys("block_{i}"), Length("n_layers"), Dims(...)]' in text
    assert told == []
    assert [count for count in asked if count > 3] == [48]


def test_a_size_that_nothing_follows() -> None:
    assert error(lambda d=4, seed=0: {"w": jnp.zeros(d)}, seed=[1, 2]) == (
        "--dim seed: no axis and no number of layers follows it; leave it out"
    )


def test_a_structure_that_changes_with_a_size() -> None:
    def make(d: int = 4, wide: int = 1) -> Any:
        return {"w": jnp.zeros(d), **({"extra": jnp.zeros(wide)} if d != 4 else {})}

    assert error(make, d=[4, 8]) == (
        "train:make: d=8 changes the structure of the state, and not only its sizes: the key 'extra' only with some sizes at state; "
        "give d one value: --dim d=4"
    )
    text, told = scaffolded("train:make", make)
    assert 'w: Float32[Array, "4"]' in text
    assert [line.partition(":")[0] for line in told] == ["d stays 4"]


def test_layers_that_are_not_alike() -> None:
    def make(n_layers: int = 4) -> Any:
        return {"layers": [{"a" if number % 2 else "b": jnp.zeros(3)} for number in range(n_layers)]}

    assert "items of several kinds at state['layers']" in error(make, n_layers=[4, 5])


def test_layers_with_sizes_of_their_own() -> None:
    def make(depth: int = 2, width: int = 8) -> Any:
        return eqx.nn.MLP(3, 2, width, depth, key=jax.random.key(0))

    text, _ = scaffolded("train:make", make)
    assert "# the items have sizes of their own, which nothing ties" in text
    assert 'layers: Annotated[tuple[Linear, ...], Length("depth+1"), Dims(None)]' in text


def test_two_fields_of_layers_with_sizes_of_their_own(tmp_path: Path) -> None:
    def make(base: int = 4, depth: int = 2) -> Any:
        def stage(number: int) -> Any:
            return {
                "conv": jnp.zeros((base * 2**number, base * 2 ** (number + 1))),
                "bias": jnp.zeros(base * 2**number),
            }

        stages = [stage(number) for number in range(depth)]
        return {"down": stages, "up": stages[::-1]}

    text, _ = scaffolded("train:make", make)
    assert text.count('Length("depth"), Dims(None)]') == 2
    # Dims that two fields bring have to be tied, or said to be their own.
    assert_comes_back(text, "own_sizes", made_up_state(make), tmp_path)


def test_a_size_that_no_expression_gives() -> None:
    text, _ = scaffolded("train:make", lambda d=4: {"w": jnp.zeros((d, 2 ** d.bit_length()))})
    assert "# an axis that no expression of the sizes gives has a name of its own" in text
    assert 'w: Float32[Array, "d d_out"]' in text


def test_a_variable_in_two_places() -> None:
    class Tied(nnx.Module):
        def __init__(self, d: int) -> None:
            self.first = nnx.Linear(d, d, rngs=nnx.Rngs(0))
            self.second = self.first

    text, _ = scaffolded("train:make", lambda d=4: {"model": Tied(d)})
    assert "    # second is state['model'].first, and declared there\n" in text
