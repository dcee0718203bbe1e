"""The same bytes as Flax, for every tree that Flax takes; each reads what the other wrote."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flax.serialization
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.tree_util import tree_map

from tests.compat.trees import arrays, packable, same, serializable
from treaty.runtime import serialization


@contextmanager
def chunk_size(size: int) -> Iterator[None]:
    """Both modules with the same limit."""
    before = flax.serialization.MAX_CHUNK_SIZE
    flax.serialization.MAX_CHUNK_SIZE = serialization.MAX_CHUNK_SIZE = size
    try:
        yield
    finally:
        flax.serialization.MAX_CHUNK_SIZE = serialization.MAX_CHUNK_SIZE = before


@given(serializable)
def test_values_have_the_same_state_dict_and_bytes(tree: Any) -> None:
    assert same(serialization.to_state_dict(tree), flax.serialization.to_state_dict(tree))
    assert serialization.to_bytes(tree) == flax.serialization.to_bytes(tree)


@given(serializable)
def test_each_restores_what_the_other_wrote(tree: Any) -> None:
    data = flax.serialization.to_bytes(tree)
    assert same(serialization.msgpack_restore(data), flax.serialization.msgpack_restore(data))
    assert same(serialization.from_bytes(tree, data), flax.serialization.from_bytes(tree, data))


@given(packable, st.booleans())
def test_trees_have_the_same_bytes(tree: Any, in_place: bool) -> None:
    ours = serialization.msgpack_serialize(tree, in_place)
    copy = tree_map(lambda leaf: leaf, tree) if not in_place else tree
    assert ours == flax.serialization.msgpack_serialize(copy, in_place)


@given(packable, st.integers(1, 40))
def test_large_arrays_are_split_alike(tree: Any, size: int) -> None:
    with chunk_size(size):
        data = serialization.to_bytes({"tree": tree, "array": np.arange(30.0).reshape(5, 6)})
        assert data == flax.serialization.to_bytes({"tree": tree, "array": np.arange(30.0).reshape(5, 6)})
        assert same(serialization.msgpack_restore(data), flax.serialization.msgpack_restore(data))


@given(arrays, st.integers(1, 40))
def test_an_array_that_is_the_whole_tree_is_split_too(array: Any, size: int) -> None:
    with chunk_size(size):
        data = serialization.to_bytes(array)
        assert data == flax.serialization.to_bytes(array)
        if array.size:
            assert same(serialization.msgpack_restore(data), flax.serialization.msgpack_restore(data))


def test_the_tree_given_is_never_changed() -> None:
    big = np.arange(30.0)
    tree = {"b": big, "a": {"c": [1, 2]}}
    with chunk_size(8):
        serialization.msgpack_serialize(tree, in_place=True)
        serialization.to_bytes(tree)
    assert list(tree) == ["b", "a"]
    assert tree["b"] is big


def test_keys_are_sorted_only_where_flax_sorts_them() -> None:
    tree = {"b": 1, "a": 2}
    assert list(serialization.msgpack_restore(serialization.msgpack_serialize(tree))) == ["a", "b"]
    assert list(serialization.msgpack_restore(serialization.msgpack_serialize(tree, in_place=True))) == ["b", "a"]
    assert list(serialization.msgpack_restore(serialization.to_bytes(tree))) == ["b", "a"]


@pytest.mark.parametrize(
    "leaf", [object(), {1, 2}, np.array([None]), 2**64, np.zeros(2, np.dtype("i4, f8", align=True))]
)
def test_what_flax_refuses_is_refused(leaf: Any) -> None:
    errors = []
    for module in (flax.serialization, serialization):
        with pytest.raises((TypeError, ValueError, OverflowError)) as caught:
            module.to_bytes({"leaf": leaf})
        errors.append(caught.type)
    assert issubclass(errors[1], errors[0])
