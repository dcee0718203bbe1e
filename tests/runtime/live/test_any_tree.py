"""Property: of any tree, from_live then to_live is the identity, bit for bit; and every single change to it is an error."""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Array, BFloat16, Float32, Int32, Key

from treaty.generator import load
from treaty.runtime import StateMismatchError, from_live, to_live
from treaty.schema import Dims, state


@state
class Inner:
    kernel: Float32[Array, "a b"]
    half: BFloat16[Array, "a"]


@state
class Outer:
    step: Int32[Array, ""]
    rng: Key[Array, ""]
    named: dict[str, Inner]
    listed: Annotated[list[Inner], Dims(None)]
    maybe: Annotated[Inner | None, Dims(None)]
    rest: Any
    ratio: float


load(Outer)


def floats(*shape: int) -> st.SearchStrategy[Any]:
    size = 4 * int(np.prod(shape))
    return st.binary(min_size=size, max_size=size).map(
        lambda bits: jnp.array(np.frombuffer(bits, np.float32).reshape(shape))
    )


@st.composite
def inners(draw: st.DrawFn) -> dict[str, Any]:
    a, b = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    half = np.array(draw(st.lists(st.floats(width=16), min_size=a, max_size=a)), ml_dtypes.bfloat16)
    return {"kernel": draw(floats(a, b)), "half": jnp.array(half)}


KEYS = st.sampled_from(["a", "b.c", "mlp/~/linear_0", "0", "$", ""])
ANY = st.recursive(
    st.none() | st.integers(-5, 5) | st.text("ab", max_size=2) | floats(2),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(KEYS, below, max_size=2),
    max_leaves=4,
)
TREES = st.fixed_dictionaries(
    {
        "step": st.integers(-(2**31), 2**31 - 1),
        "rng": st.integers(0, 3).map(jax.random.key),
        "named": st.dictionaries(KEYS, inners(), max_size=2),
        "listed": st.lists(inners(), max_size=2) | st.lists(inners(), max_size=2).map(tuple),
        "maybe": st.none() | inners(),
        "rest": ANY,
        "ratio": st.floats(),
    }
)


def bits(tree: Any) -> list[Any]:
    return [
        (
            np.asarray(
                jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
            ).tobytes(),
            leaf.dtype,
        )
        if isinstance(leaf, jax.Array)
        else (type(leaf), repr(leaf))
        for leaf in jax.tree.leaves(tree)
    ]


@settings(max_examples=40)
@given(tree=TREES)
def test_there_and_back(tree: dict[str, Any]) -> None:
    for _ in range(2):
        back = to_live(from_live(Outer, tree), tree)
        structure: Any = jax.tree.structure(back)
        assert structure == jax.tree.structure(tree)
        assert bits(back) == bits(tree)


@settings(max_examples=40)
@given(tree=TREES, data=st.data())
def test_every_change_is_an_error(tree: dict[str, Any], data: st.DataObject) -> None:
    obj = from_live(Outer, tree)
    declared = {key: one for key, one in tree.items() if key != "rest"}
    at, leaf = data.draw(st.sampled_from(jax.tree_util.tree_flatten_with_path(declared)[0]))
    kind = data.draw(st.sampled_from(["gone", "more", "shape", "dtype"]))
    changed = _with(declared, [_key(one) for one in at], leaf, kind)
    with pytest.raises(StateMismatchError):
        from_live(Outer, {**changed, "rest": tree["rest"]})
    if kind != "more":  # what a class does not declare is taken from like
        with pytest.raises(StateMismatchError):
            to_live(obj, {**changed, "rest": tree["rest"]})


def _key(entry: Any) -> Any:
    return entry.key if hasattr(entry, "key") else entry.idx


def _with(tree: Any, at: list[Any], leaf: Any, kind: str) -> Any:
    """The tree with one leaf changed, gone, or another beside it."""
    key, rest = at[0], at[1:]
    new = dict(tree) if isinstance(tree, dict) else dict(enumerate(tree))
    if rest:
        new[key] = _with(new[key], rest, leaf, kind)
    elif kind == "gone":
        del new[key]
    elif kind == "more":
        new["one more"] = jnp.zeros(1)
    elif kind == "shape":
        new[key] = jnp.zeros((*np.shape(leaf), 3), getattr(leaf, "dtype", np.float32))
    else:
        new[key] = jnp.zeros(np.shape(leaf), jnp.uint8)
    return new
