"""Any tree of dicts, lists and tuples is written as a schema that brings it back, formatted and importable."""

import itertools
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generator.scaffold.scaffolding import assert_comes_back, scaffolded


class Zeros(NamedTuple):
    dtype: str
    axes: list[str | int]


KEYS = st.one_of(
    st.sampled_from(
        [
            "w",
            "b",
            "class",
            "Dims",
            "state",
            "Array",
            "_x",
            "x",
            "self",
            "layer_0",
            "layer_1",
            "layer_2",
            "0",
            "é",
            "a b",
        ]
    ),
    st.sampled_from(['q"uote', "back\\slash", "new\nline", "{i}", "mlp/~/linear_0", "None", "TrainState", "x.y"]),
    st.text(max_size=3),
)
AXES = st.lists(st.sampled_from(["d", "e", "2*d", "d+e", "d*e", "d//2", 1, 3, 6]), max_size=3)
LEAVES = st.one_of(
    st.builds(Zeros, st.sampled_from(["float32", "bfloat16", "int8", "bool", "float8_e4m3"]), AXES),
    st.sampled_from([None, 3, 2**40, 0.1, True, 1j, "text", b"bytes", np.float32(2)]),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(KEYS, inner, max_size=4),
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.tuples(inner, st.integers(2, 3)).map(lambda one: [one[0]] * one[1]),
    ),
    max_leaves=12,
)
names = itertools.count()


def built(tree: Any, sizes: dict[str, int]) -> Any:
    if isinstance(tree, dict):
        return {key: built(one, sizes) for key, one in tree.items()}
    if isinstance(tree, Zeros):
        return jnp.zeros([one if isinstance(one, int) else eval(one, None, sizes) for one in tree.axes], tree.dtype)
    if isinstance(tree, (list, tuple)):
        return type(tree)(built(one, sizes) for one in tree)
    return tree


@settings(max_examples=int(os.environ.get("TREATY_SCAFFOLD_TREES", "25")))
@given(st.dictionaries(KEYS, TREES, min_size=1, max_size=4))
def test_a_tree_comes_back(tree: dict[str, Any]) -> None:
    def make(d: int = 6, e: int = 8) -> Any:
        return {"whole": built(tree, {"d": d, "e": e}), "root": jnp.zeros((d, e))}

    text, told = scaffolded("train:make", make)
    assert told == []
    with TemporaryDirectory() as folder:
        assert_comes_back(text, f"scaffolded_tree_{next(names)}", make(), Path(folder))
